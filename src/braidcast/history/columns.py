"""The columns of an event on disk, and `Row`, which is one event's `what` read back.

`schema` makes the Arrow schema of this table, `docs/history.md` shows it, `envelope` fills it. A column has the name
of the attribute that it is filled from, with two exceptions: `group` is the group of the node, and the `group` that
a message is about goes to `about_group`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from braidcast.core.client import MessageId
from braidcast.core.topology import Dest

TEXT: Final = "string"
INT: Final = "int64"
GROUPS: Final = "list<int32>"
INTS: Final = "list<int64>"
IDS: Final = "list<struct<client, session, seq>>"


class Column(NamedTuple):
    """One column: its type, what it holds, and which events carry it."""

    name: str
    kind: str
    holds: str
    carried_by: str
    always: bool = False
    """Never null."""
    newer: bool = False
    """Added later: a file that was written before lacks it, and is read as if it were null."""


ALL = "all"
COLUMNS: Final = (
    Column("run", TEXT, "name of the run, from the manifest", ALL, True),
    Column("protocol", TEXT, "name of the protocol, from the manifest", ALL, True),
    Column("node", INT, "process id of the process or client where it happened", ALL, True),
    Column("incarnation", INT, "how often the node had restarted", ALL, True),
    Column("group", INT, "group of the node; null for a client", "all at processes"),
    Column("seqno", INT, "position of the event within its node's incarnation, from 0", ALL, True),
    Column("t_mono", INT, "monotonic time in ticks (simulator) or microseconds (cluster)", ALL, True),
    Column("t_wall", INT, "the node's wall clock, same unit; may be offset, drift and step back", ALL, True),
    Column(
        "event", TEXT,
        "multicast, send, receive, deliver, persist, start, crash, restart, recovered, reply, or the name of a note",
        ALL, True,
    ),
    Column("peer", INT, "receiver of a send; sender of a receive or a reply", "send, receive, reply"),
    Column("role", TEXT, "role of the node at that moment, such as leader or follower", "deliver"),
    Column("kind", TEXT, "class of the message, record, delivery or note, such as accept_ack", "all but start, crash"),
    Column("client", INT, "message id: process id of the client", "whatever is about one message"),
    Column("session", INT, "message id: session of the client", "whatever is about one message"),
    Column("seq", INT, "message id: number within the session, from 1", "whatever is about one message"),
    Column("dest", GROUPS, "destination groups, ascending", "what carries the message or its destinations"),
    Column("batch_first", INT, "number of the first message of a batch", "what carries a batch"),
    Column("batch_count", INT, "how many messages the batch stands for", "what carries a batch"),
    Column("repeated", INTS, "offsets in the batch that an earlier batch already delivered", "deliver of a batch"),
    Column("ids", IDS, "all messages that this one carries or names, where it can be several", "state transfer"),
    Column("dropped", IDS, "messages that the receiver or the node forgets", "state transfer"),
    Column("about_group", INT, "the group that the message is about", "accept, accept_ack, reply, ..."),
    Column("ballot", INT, "ballot: number << 16 | leader", "protocols with leaders"),
    Column("cballot", INT, "ballot in which the sender or the node last took part", "protocols with leaders"),
    Column("vector", INTS, "ballot vector: one ballot per destination group, in the order of dest", "accept_ack"),
    Column("lts", INT, "local timestamp: clock << 10 | group", "accept, accepted, ..."),
    Column("gts", INT, "global timestamp: clock << 10 | group", "deliver, reply, commit, ..."),
    Column("prev_gts", INT, "global timestamp of the delivery before", "white-box deliver"),
    Column("clock", INT, "logical clock of the node", "records of timestamp protocols"),
    Column("view", INT, "number of the view", "protocols with views"),
    Column("index", INT, "position in a log or a total order", "protocols with logs"),
    Column("acks", INT, "acknowledgements, as a count or a bit mask", "notes on quorums"),
    Column("ts_init", INT, "initial timestamp", "optimistic and quasi-genuine"),
    Column("ts_final", INT, "final timestamp", "optimistic and quasi-genuine"),
    Column("instance", INT, "consensus instance", "protocols on consensus"),
    Column("barrier", INT, "a timestamp below which nothing follows", "optimistic and quasi-genuine"),
    Column("tau", INT, "machines in the tail at delivery", "ToTo"),
    Column("omega", INT, "machines with a concurrent candidate at receipt", "ToTo"),
    Column(
        "payload_digest", INT, "CRC-32 of the payload; histories hold no payloads, and older ones not this either",
        "multicast, deliver", newer=True,
    ),
)  # fmt: skip


@dataclass(slots=True)
class Row:
    """What is left of a message, record, delivery or note in a history read from disk; None where it had nothing."""

    kind: str
    id: MessageId | None = None
    dest: Dest | None = None
    batch_first: int | None = None
    batch_count: int | None = None
    repeated: tuple[int, ...] | None = None
    ids: tuple[MessageId, ...] | None = None
    dropped: tuple[MessageId, ...] | None = None
    group: int | None = None
    """The column `about_group`."""
    ballot: int | None = None
    cballot: int | None = None
    vector: tuple[int, ...] | None = None
    lts: int | None = None
    gts: int | None = None
    prev_gts: int | None = None
    clock: int | None = None
    view: int | None = None
    index: int | None = None
    acks: int | None = None
    ts_init: int | None = None
    ts_final: int | None = None
    instance: int | None = None
    barrier: int | None = None
    tau: int | None = None
    omega: int | None = None
    payload_digest: int | None = None


def columns_table() -> str:
    """The table of columns in Markdown, as `docs/history.md` shows it."""
    lines = ["| column | type | holds | carried by |", "|---|---|---|---|"]
    lines += [f"| `{c.name}` | {c.kind} | {c.holds} | {c.carried_by} |" for c in COLUMNS]
    return "\n".join(lines) + "\n"
