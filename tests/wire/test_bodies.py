"""What a turn puts out goes in one frame, or in as few as hold it."""

from __future__ import annotations

from braidcast.core.client import MessageId, Multicast
from braidcast.wire.codec import Codec, Item

CODEC = Codec((Multicast,))


def items(*sizes: int) -> list[Item]:
    return [(0, (1,), Multicast(MessageId(100, 1, seq), (0,), b"x" * size)) for seq, size in enumerate(sizes)]


def test_what_fits_is_one_body() -> None:
    some = items(10, 10)
    assert list(CODEC.bodies(some, 1000)) == [CODEC.encode(some)]


def test_what_does_not_fit_is_several_bodies_in_the_same_order() -> None:
    some = items(400, 10, 400, 400, 10)
    bodies = list(CODEC.bodies(some, 1000))
    assert len(bodies) > 1
    assert max(map(len, bodies)) <= 1000
    assert [item for body in bodies for item in CODEC.decode(body)] == some


def test_what_is_cut_fills_each_body_as_far_as_it_goes() -> None:
    some = items(*[100] * 100)
    bodies = list(CODEC.bodies(some, 1500))
    assert max(map(len, bodies)) <= 1500
    assert len(bodies) == -(-100 // len(CODEC.decode(bodies[0])))


def test_single_message_is_never_cut() -> None:
    some = items(10, 5000, 10)
    assert [item for body in CODEC.bodies(some, 1000) for item in CODEC.decode(body)] == some
