"""`python -m examples.kv`: a store on three processes of this machine, and what is asked of it.

    python -m examples.kv up
    python -m examples.kv put a=1 b=2
    python -m examples.kv get a b
    python -m examples.kv put a=2 b=3 --if a=1 --if b=2
    python -m examples.kv down
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from braidcast import BraidcastError
from braidcast.cli.registry import protocol_named
from braidcast.cluster.config import load_config
from braidcast.cluster.config_text import render_local
from braidcast.cluster.local import LocalCluster, free_ports, processes_in, stop_processes
from braidcast.settings import CLUSTER_FILE
from examples.kv.server import LINE_BYTES_MAX, serve
from examples.kv.store import GROUPS

PORTS = "ports.json"
ANSWER_S, LOOK_S, READY_S = 35.0, 0.05, 30.0


class NoAnswer(BraidcastError):
    """No node of the store answers."""


async def ask(folder: Path, question: dict[str, Any]) -> dict[str, Any]:
    """The answer of some node."""
    try:
        ports: dict[str, int] = json.loads((folder / PORTS).read_text())
    except OSError:
        raise NoAnswer(f"there is no store in {folder}: start one with `python -m examples.kv up`") from None
    for port in ports.values():
        try:
            return await asyncio.wait_for(_ask(port, question), ANSWER_S)
        except (OSError, EOFError):
            continue  # this node is down: another one
        except TimeoutError:
            raise NoAnswer(f"no answer in {ANSWER_S:.0f} s: are two of the three nodes running?") from None
    raise NoAnswer(f"no node of the store in {folder} answers: start it with `python -m examples.kv up`")


async def _ask(port: int, question: dict[str, Any]) -> dict[str, Any]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=LINE_BYTES_MAX)
    try:
        writer.write(json.dumps(question).encode() + b"\n")
        answer: dict[str, Any] = json.loads(await reader.readuntil(b"\n"))
        return answer
    finally:
        writer.close()


async def up(folder: Path) -> None:
    """Start the nodes that do not run, and wait until they answer."""
    folder = folder.resolve()
    file = folder / CLUSTER_FILE
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        ports = free_ports(6)
        file.write_text(render_local("whitebox", ports[:3], groups=list(GROUPS)), encoding="utf-8")
        (folder / PORTS).write_text(json.dumps(dict(zip(("n1", "n2", "n3"), ports[3:], strict=True))))
    cluster = LocalCluster(load_config(file, protocol_named))
    for node in cluster.nodes:
        cluster.commands[node] = [sys.executable, "-m", "examples.kv", "--data", str(folder), "serve", str(file), node]
    cluster.start_all()
    deadline = asyncio.get_running_loop().time() + READY_S
    for node, port in json.loads((folder / PORTS).read_text()).items():
        while True:
            try:
                await _ask(port, {"get": ["ready"]})
                break
            except (OSError, EOFError):
                if node not in cluster.running() or asyncio.get_running_loop().time() > deadline:
                    raise NoAnswer(f"node {node} does not start: {cluster.last_words(node)}") from None
                await asyncio.sleep(LOOK_S)


def pairs(given: list[str]) -> dict[str, str | None]:
    """`key=value` as such; a key alone stands for none."""
    found = {}
    for text in given:
        key, equals, value = text.partition("=")
        found[key] = value if equals else None
    return found


def parser() -> argparse.ArgumentParser:
    """The arguments."""
    made = argparse.ArgumentParser(
        prog="python -m examples.kv", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--data", type=Path, default=Path("kv-data"), help="the folder of the store (kv-data)")
    commands = made.add_subparsers(dest="command", required=True)
    commands.add_parser("up", help="start the nodes, in the background")
    commands.add_parser("down", help="stop them")
    for name, what in (("get", "read keys, all at one moment"), ("peek", "read what one replica has at the moment")):
        commands.add_parser(name, help=what).add_argument("keys", nargs="+")
    write = commands.add_parser("put", help="write keys, all at one moment; a key without a value is deleted")
    write.add_argument("pairs", nargs="+", metavar="KEY=VALUE")
    write.add_argument("--if", dest="expected", action="append", default=[], metavar="KEY=VALUE",
                       help="only if that is there; a key alone: only if it is not there")  # fmt: skip
    node = commands.add_parser("serve", help="run one node (`up` does)")
    node.add_argument("cluster", type=Path)
    node.add_argument("node")
    return made


def run(given: argparse.Namespace) -> int:
    """Do it; 1 if a write was not done because something else was there."""
    match given.command:
        case "up":
            asyncio.run(up(given.data))
        case "down":
            stop_processes(processes_in(given.data.resolve()))
        case "serve":
            asyncio.run(serve(given.cluster, given.node, json.loads((given.data / PORTS).read_text())[given.node]))
        case "put":
            question = {"put": pairs(given.pairs), "if": pairs(given.expected)}
            answer = asyncio.run(ask(given.data, question))
            return show(answer.get("differs", {}), answer) or (0 if answer.get("written") else 1)
        case reads:
            answer = asyncio.run(ask(given.data, {reads: given.keys}))
            return show(answer.get("values", {}), answer)
    return 0


def show(values: dict[str, str | None], answer: dict[str, Any]) -> int:
    """A line for each key."""
    if "error" in answer:
        raise BraidcastError(answer["error"])
    for key, value in values.items():
        print(key if value is None else f"{key}={value}")
    return 0


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    try:
        return run(parser().parse_args(arguments))
    except BraidcastError as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
