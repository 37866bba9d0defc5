"""The clients of a node: what waits for room keeps its order, and goes with its client."""

from __future__ import annotations

from typing import Any

from braidcast.cluster.clients import Clients, ClientSession
from braidcast.wire.connection import Connection, ConnectionLimits


def session(pid: int = 1) -> ClientSession:
    connection = Connection(ConnectionLimits(1 << 20, 1 << 20), lambda *_: None, lambda *_: None)
    return ClientSession(connection, pid, lambda items, bytes_max: [])


def held(clients: Clients, *sessions: ClientSession) -> None:
    clients.admits = False
    for number in range(3):
        for each in sessions:
            clients.hold(each, (0,), number)


def released(clients: Clients, most: int) -> list[tuple[ClientSession, Any]]:
    """What is taken until there is no more room."""
    found: list[tuple[ClientSession, Any]] = []
    clients.admits = True
    for each, to, message in clients.released():
        assert to == (0,)
        found.append((each, message))
        clients.admits = len(found) < most
    return found


def test_what_waits_is_taken_in_order_and_only_as_long_as_there_is_room() -> None:
    clients, first, second = Clients(), session(1), session(2)
    held(clients, first, second)
    assert released(clients, 2) == [(first, 0), (first, 1)]
    assert released(clients, 2) == [(first, 2), (second, 0)]
    assert released(clients, 9) == [(second, 1), (second, 2)]
    assert clients.held == {}


def test_what_waits_goes_with_its_client() -> None:
    clients, first, second = Clients(), session(1), session(2)
    clients.add(first)
    clients.add(second)
    held(clients, first, second)
    clients.remove(first)
    assert released(clients, 9) == [(second, 0), (second, 1), (second, 2)]
    clients.remove(second)
    clients.remove(second)
    assert len(clients) == 0


def test_client_that_is_gone_is_not_told() -> None:
    clients, one = Clients(), session(1)
    assert not clients.tell(1, 0, "word")
    clients.add(one)
    assert clients.tell(1, 0, "word")
    assert one.outgoing == [(0, (1,), "word")]
