"""The codec: what was declared comes through, and nothing else does."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from braidcast.core.client import MessageId, Multicast, Reply
from braidcast.core.message import message
from braidcast.wire.codec import Codec, Undecodable

ID = MessageId(1 << 62 | 5, 3, 7)
CODEC = Codec((Multicast, Reply))


@message
class Tick:
    """A timer."""


def packed(*items: Any) -> bytes:
    return msgspec.msgpack.encode(list(items))


def test_items_come_back_with_their_types() -> None:
    items = [(1, (2, 3), Multicast(ID, (0, 2), b"\xff")), (0, (), Reply(ID, 1, 1 << 40))]
    back = CODEC.decode(CODEC.encode(items))
    assert list(back) == items
    assert isinstance(back[0][2].id, MessageId)


def test_message_that_is_not_expected_here_is_refused_like_garbage() -> None:
    with pytest.raises(Undecodable):
        CODEC.decode(Codec((Tick,)).encode([(1, (2,), Tick())]))


@pytest.mark.parametrize(
    "body",
    [
        b"", b"\xc1", b"\x91", packed(1), packed([1, [2]]), packed([1, 2, ["Reply", ID, 0, 0]]),
        packed(["1", [2], ["Reply", ID, 0, 0]]), packed([1, [2], ["Reply", [1, 2], 0, 0]]),
        packed([1, [2], ["Nobody", ID, 0, 0]]), packed([1, [2], [7, ID, 0, 0]]), packed([1, [2], ["Reply", ID, 0]]),
        packed([1, [2], ["Reply", ID, 0, 0]]) + b"\0", b"\x91\x93\x01\x90\x91\xa2\xff\xff", b"\x91" * 100_000,
    ],
)  # fmt: skip
def test_malformed_frame_is_undecodable_and_nothing_else(body: bytes) -> None:
    with pytest.raises(Undecodable):
        CODEC.decode(body)


@pytest.mark.parametrize("session", [-1, 1 << 63, (1 << 64) - 1])
def test_number_that_no_sum_could_hold_is_refused(session: int) -> None:
    with pytest.raises(Undecodable):
        CODEC.decode(packed([1, [2], ["Reply", [1, session, 1], 0, 0]]))


@pytest.mark.parametrize(("group", "gts"), [(-1, 0), (1 << 20, 0), (0, -1), (0, (1 << 64) - 1)])
def test_group_or_timestamp_that_cannot_be_is_refused(group: int, gts: int) -> None:
    with pytest.raises(Undecodable):
        CODEC.decode(packed([1, [2], ["Reply", ID, group, gts]]))


@given(st.binary(max_size=200))
def test_any_bytes_are_items_or_undecodable(body: bytes) -> None:
    for decode in (CODEC.decode, CODEC.decode_one):
        with suppress(Undecodable):
            decode(body)
