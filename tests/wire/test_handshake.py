"""The handshake: first frames come through unchanged, and only first frames do."""

from __future__ import annotations

from typing import Any

import pytest

from braidcast.client.link import TO_CLIENT, TO_NODE
from braidcast.core.client import MessageId, Multicast, Reply
from braidcast.wire.codec import Undecodable
from braidcast.wire.handshake import (
    HANDSHAKE,
    HANDSHAKE_BYTES_MAX,
    ClientHello,
    GroupInfo,
    Hello,
    NodeInfo,
    TurnedAway,
    Welcome,
)

GROUPS = tuple([GroupInfo(f"group-{n}", n, tuple(range(7 * n, 7 * n + 7))) for n in range(1000)])
NODES = tuple([NodeInfo(f"node-{n}", f"[fe80::{n}]:7101", tuple(range(n, 7000, 100))) for n in range(100)])


@pytest.mark.parametrize(
    "said",
    [
        Hello("shop", "abc", "n1", "disk", 1, 1, True),
        ClientHello("", 1 << 62),
        Welcome("shop", "abc", "n1", GROUPS[:2], NODES[:2], 1 << 20, 1 << 10),
        TurnedAway("no", True),
    ],
    ids=lambda said: type(said).__name__,
)
def test_first_frame_comes_back_unchanged(said: Any) -> None:
    assert HANDSHAKE.decode_one(HANDSHAKE.encode(said)) == said


def test_welcome_of_the_largest_cluster_fits_into_a_handshake() -> None:
    welcome = Welcome("shop", "abc", "node-1", GROUPS, NODES, 1 << 30, 1 << 20)
    assert len(HANDSHAKE.encode(welcome)) < HANDSHAKE_BYTES_MAX


@pytest.mark.parametrize(
    "body",
    [
        TO_NODE.encode([(1, (0,), Multicast(MessageId(1, 1, 1), (0,)))]),
        TO_CLIENT.encode([(1, (0,), Reply(MessageId(1, 1, 1), 0, 1))]),
        TO_CLIENT.encode(Reply(MessageId(1, 1, 1), 0, 1)),
        b"SSH-2.0-OpenSSH",
        b"",
    ],
)
def test_anything_else_is_no_first_frame(body: bytes) -> None:
    with pytest.raises(Undecodable):
        HANDSHAKE.decode_one(body)
