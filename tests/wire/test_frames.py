"""Frames: whatever the pieces in which they come, and nothing that is not the next good one."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braidcast.wire.frames import HEADER_BYTES, NUMBERS, FrameError, FrameReader, frame

BODY_BYTES_MAX = 1000
BODIES = st.lists(st.binary(max_size=60), max_size=8)


def stream(bodies: list[bytes], first: int = 0) -> bytes:
    return b"".join([frame(first + number, body) for number, body in enumerate(bodies)])


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[a:b] for a, b in pairwise(edges)]


def read(data: list[bytes]) -> tuple[list[bytes], str | None]:
    """The bodies, and the kind of error that ended the stream."""
    reader = FrameReader(BODY_BYTES_MAX)
    found: list[bytes] = []
    for piece in data:
        try:
            found += reader.feed(piece)
        except FrameError as error:
            return found + error.bodies, error.kind
        assert len(reader.buffer) < HEADER_BYTES + BODY_BYTES_MAX
    return found, None


@given(BODIES, st.lists(st.integers(0, 10_000), max_size=10))
def test_any_split_of_a_stream_gives_the_same_bodies_but_the_empty_ones(bodies: list[bytes], cuts: list[int]) -> None:
    assert read(pieces(stream(bodies), cuts)) == ([body for body in bodies if body], None)


@given(BODIES, st.lists(st.integers(0, 10_000), max_size=10), st.binary(min_size=HEADER_BYTES, max_size=80))
def test_any_split_of_a_stream_that_goes_bad_gives_the_same_bodies_and_the_same_end(
    bodies: list[bytes], cuts: list[int], garbage: bytes
) -> None:
    data = stream(bodies) + b"x" + garbage
    assert read(pieces(data, cuts)) == ([body for body in bodies if body], "foreign frame")


@given(st.binary(max_size=300), st.lists(st.integers(0, 10_000), max_size=10))
def test_any_bytes_whatsoever_are_bodies_or_one_declared_error(data: bytes, cuts: list[int]) -> None:
    assert read(pieces(data, cuts)) == read([data])


@given(st.binary(max_size=60), st.integers(0, 10_000))
def test_one_flipped_bit_anywhere_is_refused(body: bytes, where: int) -> None:
    whole = bytearray(frame(0, body))
    where %= 8 * len(whole)
    whole[where // 8] ^= 1 << where % 8
    found, kind = read([bytes(whole), bytes(BODY_BYTES_MAX)])  # a longer length waits for what it lacks
    assert found == []
    assert kind is not None


@pytest.mark.parametrize(
    ("second", "kind"),
    [
        (frame(0, b"a"), "frame out of turn"),
        (frame(2, b"a"), "frame out of turn"),
        (frame(1, bytes(BODY_BYTES_MAX + 1)), "frame too large"),
        (b"GET / HTTP/1.1\r\n\r\n", "foreign frame"),
        (frame(1, b"a")[:2] + b"\x02" + frame(1, b"a")[3:], "frame of another format"),
        (frame(1, b"a")[:-1] + b"b", "frame with a wrong checksum"),
    ],
    ids=["replayed", "skipped", "oversized", "foreign", "another version", "another body"],
)
def test_second_frame_that_is_not_the_next_good_one_ends_the_stream_after_the_first(second: bytes, kind: str) -> None:
    assert read([frame(0, b"first") + second + frame(2, b"third")]) == ([b"first"], kind)


def test_frame_that_is_too_large_is_refused_by_its_head_alone() -> None:
    head = frame(0, bytes(BODY_BYTES_MAX + 1))[:HEADER_BYTES]
    assert read([head[:5], head[5:]]) == ([], "frame too large")


def test_frame_of_exactly_the_limit_is_taken() -> None:
    body = b"x" * BODY_BYTES_MAX
    assert read([frame(0, body)]) == ([body], None)


def test_numbers_begin_again_after_the_last() -> None:
    reader = FrameReader(BODY_BYTES_MAX)
    reader.number = NUMBERS - 1
    assert reader.feed(stream([b"last", b"first", b"second"], NUMBERS - 1)) == [b"last", b"first", b"second"]
    assert reader.number == 2


def test_buffer_holds_no_more_than_one_frame_while_it_comes_byte_by_byte() -> None:
    reader = FrameReader(BODY_BYTES_MAX)
    most, bodies = 0, []
    for byte in stream([b"a" * BODY_BYTES_MAX, b"b" * BODY_BYTES_MAX]):
        bodies += reader.feed(bytes([byte]))
        most = max(most, len(reader.buffer))
    assert bodies == [b"a" * BODY_BYTES_MAX, b"b" * BODY_BYTES_MAX]
    assert most < HEADER_BYTES + BODY_BYTES_MAX
    assert not reader.buffer


def test_kinds_of_errors_hold_no_numbers_so_that_counters_stay_few() -> None:
    kinds = {read([frame(number, b"")])[1] for number in range(1, 50)}
    assert kinds == {"frame out of turn"}
