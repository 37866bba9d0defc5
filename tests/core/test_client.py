"""What clients and processes say to each other."""

from __future__ import annotations

import msgspec

from braidcast.core.application import Connected, Delivered, Restored, Snapshot, SnapshotWanted
from braidcast.core.client import MessageId, Multicast, Redirect, Refused, Reply
from braidcast.core.message import field_names, is_message

ID = MessageId(100, 2, 7)


def test_id_is_a_triple_that_orders_by_client_session_seq() -> None:
    assert str(ID) == "100.2.7"
    assert ID[:2] == (100, 2)
    assert sorted([MessageId(1, 2, 1), MessageId(1, 1, 9), ID]) == [MessageId(1, 1, 9), MessageId(1, 2, 1), ID]


def test_multicast_is_no_batch_by_default() -> None:
    m = Multicast(ID, (0, 1))
    assert (m.payload, m.complete_below, m.batch_first, m.batch_count) == (b"", 1, 0, 0)


def test_equal_multicasts_are_one_message() -> None:
    assert {Multicast(ID, (0,), b"x"), Multicast(ID, (0,), b"x")} == {Multicast(ID, (0,), b"x")}


def test_messages_are_their_own_codec() -> None:
    """With msgspec: every field comes back with its type, ids as MessageId."""
    kinds = Multicast | Reply | Redirect | Refused | Delivered | Snapshot | Connected
    said = [
        Multicast(ID, (0, 1), b"\x00\xff", 3, 4, 5),
        Reply(ID, 0, 99),
        Redirect(ID, 1, 5),
        Refused(ID, 1, "why"),
        Delivered(Multicast(ID, (0,)), 9, (1, 2)),
        Snapshot(4, b"s"),
        Connected(3),
    ]
    for message in said:
        back = msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=kinds)
        assert back == message
        assert type(back) is type(message)
    assert isinstance(msgspec.msgpack.decode(msgspec.msgpack.encode(said[1]), type=kinds).id, MessageId)


def test_delivery_repeats_nothing_by_default() -> None:
    assert Delivered(Multicast(ID, (0,)), 9).repeated == ()


def test_state_transfer_names_the_place_in_the_order() -> None:
    for kind in (SnapshotWanted, Snapshot, Restored):
        assert field_names(kind)[0] == "gts"
    assert is_message(SnapshotWanted(1))
