"""Asking each node by itself how it is: one that hangs keeps nobody from hearing the others.

Who asks says by whom it waits: after a second, each node that has not answered is named on standard error.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from braidcast.client.errors import ClusterUnreachable
from braidcast.client.places import client_name, place_of
from braidcast.client.status import NodeStatus
from braidcast.cluster.config import ClusterConfig, NodeConfig
from braidcast.core.errors import BraidcastError
from braidcast.settings.toml_lines import host_and_port
from braidcast.wire.codec import Codec
from braidcast.wire.connection import Connection, ConnectionLimits
from braidcast.wire.handshake import HANDSHAKE, HANDSHAKE_BYTES_MAX, ClientHello, TurnedAway, Welcome
from braidcast.wire.service import FROM_CLIENTS, TO_CLIENTS, Status, StatusRefused, StatusWanted
from braidcast.wire.subject import new_client_id

if TYPE_CHECKING:
    from braidcast.wire.certificates import Certificates

WAIT_S = 2.0
SLOW_S = 1.0
"""After which who waits says for whom."""
BUFFER_BYTES_MAX = 1 << 20
TO_NODE, TO_CLIENT = Codec(FROM_CLIENTS), Codec(TO_CLIENTS)


async def ask_each(
    config: ClusterConfig, wait_s: float = WAIT_S, *, aloud: bool = False, only: Iterable[str] | None = None
) -> list[NodeStatus]:
    """How every node says it is, or why it does not; `aloud` names on standard error those that are waited for."""
    names = list(config.nodes) if only is None else list(only)
    try:
        certificates = place_of(config.path, config.tls.identity).certificates if config.tls is not None else None
    except ClusterUnreachable as error:
        return [NodeStatus(name, config.nodes[name].address, None, str(error)) for name in names]
    asked = {name: asyncio.ensure_future(ask(config.nodes[name], config.name, wait_s, certificates)) for name in names}
    if not asked:
        return []
    await asyncio.wait(asked.values(), timeout=SLOW_S)
    if aloud:
        name_the_silent(config, [name for name, answer in asked.items() if not answer.done()])
    return list(await asyncio.gather(*asked.values()))


def name_the_silent(config: ClusterConfig, names: Iterable[str]) -> None:
    """Say that these have not answered yet."""
    for name in names:
        click.echo(f"braidcast: node {name} at {config.nodes[name].address} does not answer: waiting", err=True)


async def ask(
    node: NodeConfig, cluster: str, wait_s: float, certificates: Certificates | None = None
) -> NodeStatus:
    """How one node says it is."""
    loop = asyncio.get_running_loop()
    bodies: asyncio.Queue[bytes] = asyncio.Queue()
    ended: asyncio.Future[str] = loop.create_future()
    connection = Connection(
        ConnectionLimits(HANDSHAKE_BYTES_MAX, BUFFER_BYTES_MAX), lambda _, body: bodies.put_nowait(body),
        lambda _, why: None if ended.done() else ended.set_result(why),
        tls=certificates.dial(node.name) if certificates is not None else None,
    )  # fmt: skip
    try:
        async with asyncio.timeout(wait_s):
            await loop.create_connection(lambda: connection, *host_and_port(node.address))
            client = new_client_id(client_name(certificates))
            connection.send(HANDSHAKE.encode(ClientHello(cluster, client)))
            said = HANDSHAKE.decode_one(await _next(bodies, ended))
            if isinstance(said, TurnedAway):
                return NodeStatus(node.name, node.address, None, said.why)
            if not isinstance(said, Welcome):
                return NodeStatus(node.name, node.address, None, "what answers is no node of braidcast")
            if (said.cluster, said.node) != (cluster, node.name):
                why = f"node {said.node} of cluster {said.cluster} answers in its place"
                return NodeStatus(node.name, node.address, None, why)
            connection.reader.body_bytes_max = said.frame_bytes_max
            connection.send(TO_NODE.encode([(client, (), StatusWanted())]))
            while True:
                for _, _, answer in TO_CLIENT.decode(await _next(bodies, ended)):
                    if isinstance(answer, Status):
                        return NodeStatus(node.name, node.address, json.loads(answer.text), "")
                    if isinstance(answer, StatusRefused):
                        return NodeStatus(node.name, node.address, None, answer.why)
    except TimeoutError:
        return NodeStatus(node.name, node.address, None, f"no answer within {wait_s:g} s")
    except (OSError, UnicodeError, BraidcastError) as error:
        return NodeStatus(node.name, node.address, None, _short(error))
    finally:
        connection.end("asked")


async def _next(bodies: asyncio.Queue[bytes], ended: asyncio.Future[str]) -> bytes:
    body = asyncio.ensure_future(bodies.get())
    await asyncio.wait((body, ended), return_when=asyncio.FIRST_COMPLETED)
    if body.done():
        return body.result()
    body.cancel()
    raise ConnectionError(ended.result())


def _short(error: Exception) -> str:
    return "nothing listens there" if isinstance(error, ConnectionRefusedError) else str(error) or type(error).__name__
