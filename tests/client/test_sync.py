"""Clients without an event loop, on a real local cluster: the thread is real, so nothing here is virtual."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from braidcast.cli.registry import protocol_named
from braidcast.client.client import Client
from braidcast.client.errors import ClusterUnreachable, TimedOut, UnknownGroup
from braidcast.client.subscriber import Subscriber
from braidcast.cluster.config import load_config
from braidcast.cluster.config_text import render_local
from braidcast.cluster.local import LocalCluster, free_ports
from braidcast.core.errors import BraidcastError
from braidcast.settings import CLUSTER_FILE

READY_S = 30.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("local")
    text = render_local("whitebox", free_ports(3), groups=["accounts", "stock"])
    (folder / CLUSTER_FILE).write_text(text)
    made = LocalCluster(load_config(folder / CLUSTER_FILE, protocol_named))
    made.start_all()
    yield made
    made.stop_all()


def connect(cluster: LocalCluster) -> Client:
    return Client.connect(cluster.folder, connect_timeout=READY_S)


def subscribe(cluster: LocalCluster, after: str = "") -> Subscriber:
    return Subscriber.connect(cluster.folder, group="stock", after=after, connect_timeout=READY_S)


def threads() -> int:
    return sum(thread.name == "braidcast" for thread in threading.enumerate())


def test_script_sends_and_reads_what_it_sent(cluster: LocalCluster) -> None:
    with connect(cluster).sync() as client:
        assert client.groups == ("accounts", "stock")
        first = client.multicast(b"first", to={"accounts", "stock"})
        futures = [client.submit(b"%d" % number, to="stock") for number in range(100)]
        client.drain()
        last = futures[-1].result()
        again = client.multicast(b"named", to="stock", id=(id := client.new_id()))
        assert client.multicast(b"named", to="stock", id=id).id == again.id
    with subscribe(cluster, str(first.timestamp - 1)).sync() as deliveries:
        found = [deliveries.next(READY_S) for _ in range(102)]
        with pytest.raises(TimeoutError):
            deliveries.next(0.01)
    assert [d.payload for d in found] == [b"first", *[b"%d" % number for number in range(100)], b"named"]
    assert found[-2].order == (last.timestamp, last.part)
    with subscribe(cluster, str(found[50].checkpoint)).sync() as deliveries:
        assert [next(deliveries) for _ in range(51)] == found[51:]
    assert threads() == 0


def test_it_works_where_a_loop_already_runs_as_in_a_notebook(cluster: LocalCluster) -> None:
    async def cell() -> int:
        with connect(cluster).sync() as client:
            return client.multicast(b"from a notebook", to="accounts").timestamp

    assert asyncio.run(cell()) > 0


def test_errors_arrive_where_the_call_was_made_and_no_thread_stays(cluster: LocalCluster) -> None:
    with connect(cluster).sync() as client:
        with pytest.raises(UnknownGroup):
            client.multicast(b"", to="nowhere")
        with pytest.raises(TimedOut):
            client.multicast(b"", to="stock", timeout=0)
    with pytest.raises(BraidcastError, match="not open"):
        client.multicast(b"", to="stock")
    with pytest.raises(ClusterUnreachable), Client.connect("127.0.0.1:1", connect_timeout=0).sync():
        pass
    with pytest.raises(UnknownGroup), Subscriber.connect(cluster.folder, group="nowhere").sync():
        pass
    assert threads() == 0
