"""The examples of docs/client.md and of the README run as they stand, one after the other, on a real local cluster
with TLS."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.docs.examples import run_all
from tests.docs.fences import blocks

import braidcast
from braidcast.cli.registry import protocol_named
from braidcast.client.client import ClientOptions
from braidcast.client.places import link_to
from braidcast.cluster.authority import certify_cluster
from braidcast.cluster.config import load_config
from braidcast.cluster.config_text import render_local
from braidcast.cluster.local import LocalCluster, free_ports
from braidcast.settings import CLUSTER_FILE
from braidcast.trials.faulty_cluster import READY_S

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "client.md").read_text(encoding="utf-8")
OF_REPLICAS = (ROOT / "docs" / "replica.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    made = tmp_path_factory.mktemp("shop")
    (made / CLUSTER_FILE).write_text(render_local("whitebox", free_ports(3), groups=["accounts", "stock"], tls=True))
    config = load_config(made / CLUSTER_FILE, protocol_named)
    certify_cluster(config)
    cluster = LocalCluster(config)
    cluster.start_all()
    yield made
    cluster.stop_all()


async def run_ready(codes: list[str], names: dict[str, Any]) -> None:
    await (await link_to(CLUSTER_FILE, READY_S)).close()
    await run_all(codes, names, "docs/client.md")


def test_examples_run_one_after_the_other(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {}
    asyncio.run(run_ready(blocks(TEXT, "python"), names))
    assert names["first"].payload == b"sell one chair"
    assert len(names["receipts"]) == 5000
    assert names["db"].execute("select count(*) from effects").fetchone() == (100,)
    assert names["receipt"].id == names["id"]


def test_client_of_the_readme_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "braidcast-data").symlink_to(folder)  # as `braidcast up` would have made it
    monkeypatch.chdir(folder)
    (code,) = [block for block in blocks(README, "python") if "Client.connect" in block]
    asyncio.run(run_ready([code], {}))


def test_every_error_and_every_option_is_explained() -> None:
    errors = [name for name in braidcast.__all__ if isinstance(getattr(braidcast, name), type)
              and issubclass(getattr(braidcast, name), Exception)]  # fmt: skip
    missing = [name for name in (*errors, *ClientOptions.__dataclass_fields__) if f"`{name}`" not in TEXT + OF_REPLICAS]
    assert missing == []
