"""A network between the nodes of a local cluster that can be cut: a proxy on each way by which one node dials another.

1. What a cut way carries is held back, not lost, word of the end of a connection included: as when a cable is pulled,
   and TCP sends it all again when the cable is back in time.
2. A way has two directions, which are cut apart from each other: partitions may be one-way.
3. Connections are made through a cut way, too, but nothing comes of them: the one who dials waits in vain.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import cast

Direction = tuple[str, str]
"""From one node to another."""


class Proxies:
    """The ways between nodes. Cuts of one direction add up: it is whole when each of them has been healed."""

    def __init__(self) -> None:
        self.cuts: Counter[Direction] = Counter()
        self.ends: dict[_End, None] = {}
        self.servers: list[asyncio.Server] = []

    async def open(self, dialler: str, dialled: str, host: str, port: int) -> int:
        """Listen for what `dialler` has to say to `dialled`, who is at that address; the port where."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: _Near(self, dialler, dialled, host, port), "127.0.0.1", 0)
        self.servers.append(server)
        found: int = server.sockets[0].getsockname()[1]
        return found

    def cut(self, directions: Iterable[Direction]) -> None:
        """Let nothing through."""
        self.cuts.update(directions)
        self._look()

    def heal(self, directions: Iterable[Direction]) -> None:
        """Undo one cut of each."""
        self.cuts.subtract(directions)
        self._look()

    def heal_all(self) -> None:
        """Undo every cut."""
        self.cuts.clear()
        self._look()

    def _look(self) -> None:
        for end in list(self.ends):
            end.look()

    def close(self) -> None:
        """End everything."""
        for server in self.servers:
            server.close()
        for end in list(self.ends):
            end.transport.abort()


class _End(asyncio.Protocol):
    """One end of a connection through a proxy: what is read here is written at the other."""

    def __init__(self, proxies: Proxies, direction: Direction) -> None:
        self.proxies, self.direction = proxies, direction
        self.transport: asyncio.Transport
        self.other: _End | None = None
        self.is_choked = False
        """The other end takes nothing at the moment."""
        self.is_gone = False
        self.held = b""
        """What was read although it could not go on: older asyncios read on for a moment after they are told not to."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.proxies.ends[self] = None
        self.look()

    def look(self) -> None:
        """Read if what is read can go on its way; end if the other side has ended, and word of it can come here."""
        other, cuts = self.other, self.proxies.cuts
        if other is not None and other.is_gone and not cuts[other.direction] > 0:
            self.transport.close()
        elif other is None or other.is_gone or self.is_choked or cuts[self.direction] > 0:
            self.transport.pause_reading()
        else:
            held, self.held = self.held, b""
            if held:
                other.transport.write(held)
            self.transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        if self.other is None or self.proxies.cuts[self.direction] > 0:
            self.held += data
            self.transport.pause_reading()
        else:
            self.other.transport.write(data)

    def pause_writing(self) -> None:
        if self.other is not None:
            self.other.is_choked = True
            self.other.look()

    def resume_writing(self) -> None:
        if self.other is not None:
            self.other.is_choked = False
            self.other.look()

    def connection_lost(self, exc: Exception | None) -> None:
        self.proxies.ends.pop(self, None)
        self.is_gone = True
        if self.other is not None:
            self.other.look()


class _Near(_End):
    """The end of the one who dialled; it dials on."""

    def __init__(self, proxies: Proxies, dialler: str, dialled: str, host: str, port: int) -> None:
        super().__init__(proxies, (dialler, dialled))
        self.host, self.port = host, port
        self.dialling: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.dialling = asyncio.get_running_loop().create_task(self._dial())

    async def _dial(self) -> None:
        far = _End(self.proxies, (self.direction[1], self.direction[0]))
        try:
            await asyncio.get_running_loop().create_connection(lambda: far, self.host, self.port)
        except OSError:
            self.transport.abort()
            return
        if self.transport.is_closing():
            far.transport.abort()
            return
        self.other, far.other = far, self
        self.look()
        far.look()
