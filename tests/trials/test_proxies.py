"""Ways that can be cut: what goes through, what waits, and what word of an end does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from braidcast.trials.proxies import Proxies

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
PATIENCE_S = 20.0


async def with_a_way(scenario: Callable[[Proxies, Streams, Streams], Awaitable[None]]) -> None:
    """A connection from `a` to `b` through a proxy: the proxies, a's end and b's."""
    arrived: asyncio.Queue[Streams] = asyncio.Queue()
    server = await asyncio.start_server(lambda *streams: arrived.put_nowait(streams), "127.0.0.1", 0)
    proxies = Proxies()
    port = await proxies.open("a", "b", *server.sockets[0].getsockname())
    a = await asyncio.open_connection("127.0.0.1", port)
    b = await arrived.get()
    try:
        async with asyncio.timeout(PATIENCE_S):
            await scenario(proxies, a, b)
    finally:
        proxies.close()
        server.close()
        for _, writer in (a, b):
            await end(writer)


async def end(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    with suppress(ConnectionError):
        await writer.wait_closed()


def test_both_directions_carry_and_an_end_is_passed_on() -> None:
    async def scenario(proxies: Proxies, a: Streams, b: Streams) -> None:
        a[1].write(b"to b")
        assert await b[0].readexactly(4) == b"to b"
        b[1].write(b"to a")
        assert await a[0].readexactly(4) == b"to a"
        a[1].close()
        assert await b[0].read() == b""

    asyncio.run(with_a_way(scenario))


def test_cut_direction_holds_back_and_the_other_one_carries() -> None:
    async def scenario(proxies: Proxies, a: Streams, b: Streams) -> None:
        proxies.cut([("a", "b")])
        a[1].write(b"late")
        b[1].write(b"soon")
        assert await a[0].readexactly(4) == b"soon"
        held = asyncio.ensure_future(b[0].readexactly(4))
        b[1].write(b"more")
        assert await a[0].readexactly(4) == b"more"
        assert not held.done()
        proxies.heal([("a", "b")])
        assert await held == b"late"

    asyncio.run(with_a_way(scenario))


def test_cuts_of_one_direction_add_up() -> None:
    async def scenario(proxies: Proxies, a: Streams, b: Streams) -> None:
        proxies.cut([("a", "b")])
        proxies.cut([("a", "b")])
        proxies.heal([("a", "b")])
        a[1].write(b"late")
        b[1].write(b"soon")
        assert await a[0].readexactly(4) == b"soon"
        held = asyncio.ensure_future(b[0].readexactly(4))
        proxies.heal_all()
        assert await held == b"late"

    asyncio.run(with_a_way(scenario))


def test_word_of_an_end_waits_for_the_way_to_be_healed() -> None:
    async def scenario(proxies: Proxies, a: Streams, b: Streams) -> None:
        proxies.cut([("a", "b")])
        a[1].close()
        ended = asyncio.ensure_future(b[0].read())
        await a[1].wait_closed()
        assert not ended.done()
        proxies.heal_all()
        assert await ended == b""

    asyncio.run(with_a_way(scenario))


def test_way_to_nobody_is_closed() -> None:
    async def scenario(proxies: Proxies, a: Streams, b: Streams) -> None:
        unused = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        host, port = unused.sockets[0].getsockname()
        unused.close()
        await unused.wait_closed()
        way = await proxies.open("a", "c", host, port)
        reader, writer = await asyncio.open_connection("127.0.0.1", way)
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
        await end(writer)

    asyncio.run(with_a_way(scenario))
