"""One node of the store: a replica of every group, and a port where `python -m examples.kv` asks.

A question is a line of JSON, and so is its answer: `{"get": ["a", "b"]}`, `{"put": {"a": "1"}, "if": {"b": null}}`,
`{"peek": ["a"]}`. A peek is a read of this replica alone: at once, and maybe of a while ago.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from typing import Any

from braidcast import BraidcastError, Replica
from examples.kv.store import GROUPS, Keys, get, group_of, put

LINE_BYTES_MAX = 1 << 20


class BadQuestion(BraidcastError):
    """What was asked makes no sense."""


class Server:
    """Answers for one node."""

    def __init__(self, keys: dict[str, Keys]) -> None:
        self.keys = keys
        self.any = next(iter(keys.values()))

    async def answer(self, line: bytes) -> dict[str, Any]:
        """To one line."""
        try:
            match json.loads(line):
                case {"get": [*names]} if names:
                    return {"values": await get(self.any, *map(_text, names))}
                case {"peek": [*names]}:
                    return {"values": {name: self.keys[group_of(_text(name))].value.get(name) for name in names}}
                case {"put": {**new}, **rest} if new:
                    differs = await put(self.any, _values(new), _values(rest.get("if", {})))
                    return {"written": not differs, "differs": differs}
            raise BadQuestion("ask for get, peek or put, and name some keys")
        except (ValueError, RecursionError):
            return {"error": "a question is a line of JSON"}
        except (BraidcastError, TypeError) as error:
            return {"error": str(error)}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One who asks, until it leaves."""
        try:
            while line := await reader.readline():
                writer.write(json.dumps(await self.answer(line)).encode() + b"\n")
                await writer.drain()
        except (ConnectionError, ValueError):
            pass  # it is gone, or its line has no end
        finally:
            writer.close()


def _text(name: object) -> str:
    if not isinstance(name, str):
        raise BadQuestion(f"a key is a text, not {name!r}")
    return name


def _values(given: object) -> dict[str, str | None]:
    if not isinstance(given, dict) or not all(value is None or isinstance(value, str) for value in given.values()):
        raise BadQuestion("values are texts, or null for none")
    return {_text(name): value for name, value in given.items()}


async def serve(cluster: str | os.PathLike[str], node: str, port: int) -> None:
    """Run a node until it is told to stop."""
    told = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, told.set)
    keys = {group: Keys() for group in GROUPS}
    async with Replica(cluster, node=node, applications=keys):
        server = await asyncio.start_server(Server(keys).serve, "127.0.0.1", port, limit=LINE_BYTES_MAX)
        async with server:
            await told.wait()
