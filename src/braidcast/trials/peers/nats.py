"""NATS JetStream: one stream of three replicas in files; a unit is a message, or so many published at once.

A replica writes to its file and lets the system write that to the disk within the sync interval, which is two minutes
unless it is set; releases before 2.10 cannot set it.
"""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Collection
from importlib.metadata import version
from pathlib import Path
from typing import Any

from braidcast.cluster.local import free_ports
from braidcast.trials.bench import ClusterLoad
from braidcast.trials.peers.peer import SERVERS, Servers, first_line, found, until

STREAM, SUBJECT = "bench", "bench"


class NatsClient:
    """Publishes to the server that leads the stream; every message has an acknowledgement of its own."""

    def __init__(self, connection: Any, load: ClusterLoad) -> None:
        self.connection = connection
        self.stream = connection.jetstream(publish_async_max_pending=load.outstanding * load.batch + 1)
        self.batch, self.payload = load.batch, b"x" * load.payload_bytes

    async def _unit(self) -> None:
        under_way = [await self.stream.publish_async(SUBJECT, self.payload) for _ in range(self.batch)]
        for acknowledgement in under_way:
            await acknowledgement

    def submit(self) -> asyncio.Future[Any]:
        return asyncio.ensure_future(self._unit())

    async def close(self) -> None:
        await self.connection.close()


class Nats:
    """Three servers with their defaults."""

    name = "NATS JetStream"
    durability = "the death of any process; of power, only what is older than the sync interval (2 min by default)"
    acknowledged = "a majority has written it to a file, without fsync"
    unit = "messages, each with an acknowledgement"
    remark = ""

    def __init__(self) -> None:
        self.servers = Servers()
        self.urls: list[str] = []

    def missing(self) -> str:
        if found("nats-server") is None:
            return "not installed: apt-get install nats-server"
        return "" if importlib.util.find_spec("nats") else "no client: pip install nats-py"

    def version(self) -> str:
        said = first_line(found("nats-server") or "nats-server", "--version").removeprefix("nats-server: v")
        return f"{said}, nats-py {version('nats-py')}"

    def start(self, folder: Path) -> None:
        program = found("nats-server") or "nats-server"
        ports = free_ports(2 * SERVERS)
        self.urls = [f"nats://127.0.0.1:{port}" for port in ports[:SERVERS]]
        routes = ",".join(f"nats://127.0.0.1:{port}" for port in ports[SERVERS:])
        for number, (port, peer_port) in enumerate(zip(ports[:SERVERS], ports[SERVERS:], strict=True)):
            self.servers.start(folder, [
                program, "--addr", "127.0.0.1", "--port", str(port), "--server_name", f"s{number}",
                "--jetstream", "--store_dir", str(folder / f"s{number}"),
                "--cluster_name", "bench", "--cluster", f"nats://127.0.0.1:{peer_port}", "--routes", routes,
            ])  # fmt: skip

    def pids(self) -> Collection[int]:
        return self.servers.pids()

    async def connect(self, load: ClusterLoad) -> NatsClient:
        leader = await until(self._leader, self.servers, "NATS JetStream to have a stream with a leader")
        client = NatsClient(await self._open(leader), load)
        await client.submit()
        return client

    async def _open(self, url: str) -> Any:
        import nats

        async def ignore(_: Exception) -> None:
            """What fails raises; the client's own way is to print it as well."""

        return await nats.connect(url, allow_reconnect=False, connect_timeout=1, error_cb=ignore)

    async def _leader(self) -> str | None:
        """The server that leads the stream, which is made first."""
        from nats.errors import Error
        from nats.js.api import StorageType

        try:
            connection = await self._open(self.urls[0])
        except Error:
            return None
        try:
            info = await connection.jetstream(timeout=2).add_stream(
                name=STREAM, subjects=[SUBJECT], num_replicas=SERVERS, storage=StorageType.FILE
            )
            leader = info.cluster.leader if info.cluster else None
            return self.urls[int(leader.removeprefix("s"))] if leader else None
        except Error:
            return None
        finally:
            await connection.close()

    def stop(self) -> None:
        self.servers.stop()
