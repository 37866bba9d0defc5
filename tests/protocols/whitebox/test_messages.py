"""Every kind of message: handled where it says, and able to travel and to be written."""

from __future__ import annotations

import inspect
from typing import Any

import msgspec
import pytest

from braidcast.core.client import MessageId, Multicast
from braidcast.core.message import field_names, snake_name
from braidcast.protocols.parts.dedup import DedupState, SessionState
from braidcast.protocols.whitebox import WhiteBox, messages

KINDS = [kind for _, kind in inspect.getmembers(messages, inspect.isclass) if kind.__module__ == messages.__name__]
NOTES = {"Committed", "Leading", "SteppedDown", "Retried", "CaughtUp", "SnapshotInstalled", "Redelivered", "Collected",
         "SessionsExpired", "StateRegained", "VoteComplete"}  # fmt: skip
BODY = Multicast(MessageId(100, 1, 2), (0, 1), b"\x00\xff", 2, 3, 4)
KNOWN = messages.Known(BODY.id, (0, 1), 3, 1024, 2049, BODY, 7)
TABLE = DedupState((SessionState(100, 1, 2, ((2, 2049),), 2049),), (), ((100, 1),), ((100, 1, (3, 7)),))
SAMPLES: dict[str, Any] = {
    "Ballot": 65537, "int": 3, "Timestamp": 2049, "Group": 1, "Dest": (0, 1), "Vector": (65537, 3), "bool": True,
    "bytes": b"\x00", "MessageId": BODY.id, "Multicast": BODY, "Multicast | None": BODY, "DedupState": TABLE,
    "tuple[StableUpto, ...]": ((1, 2048, 65539),),
    "tuple[Known, ...]": (KNOWN,), "tuple[MessageId, ...]": (BODY.id,), "tuple[Multicast, ...]": (BODY,),
    "tuple[int, ...]": (1, 2), "tuple[Count, ...]": (1, 2), "Count": 3, "Clock": 3,
    "Annotated[int, between(0, PHASE_MAX)]": 3, "tuple[tuple[Group, Timestamp], ...]": ((1, 2049),),
    "tuple[tuple[Dest, Timestamp], ...]": (((0, 1), 2049),),
    "tuple[tuple[MessageId, tuple[int, ...]], ...]": ((BODY.id, (0, 1)),),
    "Transferred | None": messages.Transferred(2049, b"s", (KNOWN,), TABLE, 1024),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_message_travels_and_is_written_unchanged(kind: Any) -> None:
    """Whatever a driver sends or puts on disk comes back equal, nested messages and ids with their types."""
    sent = kind(*[SAMPLES[kind.__annotations__[name]] for name in field_names(kind)])
    back = msgspec.msgpack.decode(msgspec.msgpack.encode(sent), type=kind)
    assert back == sent
    assert hash(back) == hash(sent)


def test_every_kind_is_handled_replayed_carried_or_noted() -> None:
    handled = {kind.__name__ for kind in WhiteBox._on} | {kind.__name__ for kind in WhiteBox._redo}
    assert {kind.__name__ for kind in KINDS} - handled == {"Known", "SnapshotBase", *NOTES}


def test_no_kind_is_both_an_input_and_a_record() -> None:
    assert not WhiteBox._on.keys() & WhiteBox._redo.keys()


def test_every_record_is_replayed() -> None:
    records = {kind.__name__ for kind in WhiteBox._redo}
    assert records == {
        "Started", "Promised", "Accepted", "Installed", "Marked", "Trimmed", "Transferred", "Checkpoint", "Forgot",
        "Rejoined", "Told",
    }  # fmt: skip


def test_names_in_histories_are_unique() -> None:
    names = [snake_name(kind) for kind in KINDS]
    assert len(names) == len(set(names))
