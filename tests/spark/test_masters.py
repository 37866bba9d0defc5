"""Master URLs that mean nothing, and masters that do not answer, are said at once."""

from __future__ import annotations

import socket

import pytest

from braidcast.spark.masters import BadMaster, check_master, is_here, is_local


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*,2]", "local-cluster[2,1,1024]", "yarn", "k8s://x:1"])
def test_master_urls_of_spark_are_taken(master: str) -> None:
    check_master(master)


@pytest.mark.parametrize("master", ["", "nonsense", "local[x]", "http://host:7077", "spark://host", "spark://h:99999"])
def test_what_is_no_master_url_says_what_one_looks_like(master: str) -> None:
    with pytest.raises(BadMaster, match=r"is no master URL: .*spark://HOST:PORT"):
        check_master(master)


def test_a_master_that_does_not_answer_is_named() -> None:
    port = free_port()
    with pytest.raises(BadMaster, match=rf"no Spark master answers at 127\.0\.0\.1:{port} .*start it"):
        check_master(f"spark://127.0.0.1:{port}")


def test_one_of_several_masters_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as standby:
        check_master(f"spark://127.0.0.1:{free_port()},127.0.0.1:{standby.getsockname()[1]}")


def test_only_what_runs_here_listens_on_loopback_only() -> None:
    assert is_local("local[2,3]")
    assert not is_local("local-cluster[1,1,1024]")
    assert is_here("local-cluster[1,1,1024]")
    assert is_here("spark://127.0.0.1:7077,localhost:7078")
    assert not is_here("spark://cluster.example:7077")
    assert not is_here("yarn")
