"""etcd: one Raft log of three members, every commit synced; a unit is a put, or a transaction of puts.

Requests are written by hand: two messages of its interface are all that is needed, and its responses need no reading.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
from collections.abc import Collection
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

from braidcast.cluster.local import free_ports
from braidcast.trials.bench import ClusterLoad
from braidcast.trials.peers.peer import SERVERS, Servers, first_line, found, until

KEYS = 1024
"""Puts go through so many keys in turn; a transaction must not have one twice."""
TXN_OPS_MAX = 128
ANSWER_S = 2.0


def field(number: int, value: bytes) -> bytes:
    """A field of bytes, as Protocol Buffers write it."""
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    found.append(value)
    return bytes(found)


class EtcdClient:
    """Puts through gRPC, all on one connection to the leader."""

    def __init__(self, address: str, load: ClusterLoad) -> None:
        import grpc.aio

        self.channel = grpc.aio.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)])
        method = "Put" if load.batch == 1 else "Txn"
        self.call = self.channel.unary_unary(f"/etcdserverpb.KV/{method}")
        self.batch, self.payload, self.numbers = load.batch, b"x" * load.payload_bytes, count()

    def _put(self) -> bytes:
        return field(1, b"%d" % (next(self.numbers) % KEYS)) + field(2, self.payload)

    def submit(self) -> asyncio.Future[Any]:
        if self.batch == 1:
            return self._begin(self._put())
        operations = [field(2, field(2, self._put())) for _ in range(self.batch)]
        return self._begin(b"".join(operations))

    def _begin(self, request: bytes) -> asyncio.Future[Any]:
        begun: asyncio.Future[Any] = asyncio.ensure_future(self.call(request))
        return begun

    async def close(self) -> None:
        await self.channel.close()


class Etcd:
    """Three members with their defaults."""

    name = "etcd"
    durability = "loss of power everywhere"
    acknowledged = "a majority has it on disk (fsync), and the leader has applied it"
    unit = "a transaction of puts"
    remark = ""

    def __init__(self) -> None:
        self.servers = Servers()
        self.addresses: list[str] = []

    def missing(self) -> str:
        if found("etcd") is None:
            return "not installed: apt-get install etcd-server"
        return "" if importlib.util.find_spec("grpc") else "no client: pip install grpcio"

    def version(self) -> str:
        said = first_line(found("etcd") or "etcd", "--version").removeprefix("etcd Version: ")
        return f"{said}, grpcio {version('grpcio')}"

    def start(self, folder: Path) -> None:
        program = found("etcd") or "etcd"
        ports = free_ports(2 * SERVERS)
        self.addresses = [f"127.0.0.1:{port}" for port in ports[:SERVERS]]
        others = [f"http://127.0.0.1:{port}" for port in ports[SERVERS:]]
        members = ",".join(f"m{number}={url}" for number, url in enumerate(others))
        for number, (address, url) in enumerate(zip(self.addresses, others, strict=True)):
            self.servers.start(folder, [
                program, "--name", f"m{number}", "--data-dir", str(folder / f"m{number}"),
                "--listen-client-urls", f"http://{address}", "--advertise-client-urls", f"http://{address}",
                "--listen-peer-urls", url, "--initial-advertise-peer-urls", url,
                "--initial-cluster", members, "--initial-cluster-state", "new", "--logger", "zap",
            ])  # fmt: skip

    def pids(self) -> Collection[int]:
        return self.servers.pids()

    async def connect(self, load: ClusterLoad) -> EtcdClient:
        leader = await until(self._leader, self.servers, "etcd to have a leader")
        client = EtcdClient(leader, load)
        await client.submit()
        return client

    async def _leader(self) -> str | None:
        for address in self.addresses:
            status = await asyncio.to_thread(_status_of, address)
            if status.get("leader", "0") == status["header"]["member_id"]:
                return address
        return None

    def stop(self) -> None:
        self.servers.stop()


def _status_of(address: str) -> dict[str, Any]:
    request = Request(f"http://{address}/v3/maintenance/status", data=b"{}")
    with build_opener(ProxyHandler({})).open(request, timeout=ANSWER_S) as answer:
        status: dict[str, Any] = json.load(answer)
        return status
