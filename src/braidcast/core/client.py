"""What a client and a process say to each other, whatever the protocol.

A client is a process id outside the topology; replies are sent to it like any other message. A message is named by
(client, session, seq) and keeps that name through every retry, so that it is ordered once.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from braidcast.core.ballots import Ballot
from braidcast.core.errors import BraidcastError
from braidcast.core.message import Count, between, message
from braidcast.core.timestamps import Timestamp
from braidcast.core.topology import Dest, Group


class MessageId(NamedTuple):
    """Who multicast it, in which session of its life, and the how many-th of that session, from 1.

    Sessions of a client have rising numbers. Take them from a clock: a group that has forgotten a client refuses
    numbers which it has seen expire, whoever comes with them.
    """

    client: Annotated[int, between(0, (1 << 63) - 1)]
    session: Count
    seq: Count

    def __str__(self) -> str:
        return f"{self.client}.{self.session}.{self.seq}"

    @classmethod
    def parse(cls, text: str) -> MessageId:
        """What `str` made of one."""
        parts = text.split(".")
        if len(parts) != 3 or not all(part.isascii() and part.isdecimal() and len(part) < 20 for part in parts):
            raise BraidcastError(f"{text!r} is not the id of a message: write client.session.seq")
        return cls(*map(int, parts))


@message
class Multicast:
    """One ordered unit: a payload for a set of groups.

    A client may form a batch: one unit with one id that stands for `batch_count` messages of its own, numbered from
    `batch_first` in a space of their own. The payload stays opaque. The batch is ordered as a whole, and each of its
    messages is delivered once even if the client puts it into a second batch after a time-out.
    `complete_below` is the client's word that all its units with a lower seq in this session are complete everywhere,
    `batch_complete_below` the same for the messages in its batches; without it, these are remembered one by one.
    """

    id: MessageId
    dest: Dest
    payload: bytes = b""
    complete_below: Count = 1
    batch_first: Count = 0
    batch_count: Count = 0
    batch_complete_below: Count = 0


@message
class Reply:
    """`group` delivered `id` at `gts`; 0 when the timestamp is no longer known. Proves delivery in every group."""

    id: MessageId
    group: Group
    gts: Timestamp


@message
class Redirect:
    """Not the leader of `group`: its newest known ballot, and so its leader, is `ballot`."""

    id: MessageId
    group: Group
    ballot: Ballot


EXPIRED_SESSION = "expired session"
"""Why a message is refused whose session is forgotten: in another session its client is welcome."""


@message
class Refused:
    """`id` will not be ordered on behalf of this submission."""

    id: MessageId
    group: Group
    why: str
