"""Where a cluster is, in every form in which one may say it, and one clear error for what is none of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.client.fakes import NODES

from braidcast.client.errors import ClusterUnreachable
from braidcast.client.places import Place, place_of
from braidcast.cluster.config_text import render_local

ADDRESSES = tuple(node.address for node in NODES)
LATER = """
[cluster]
name = "shop"
protocol = "of-a-later-version"
colour = "blue"
[cluster.options]
depth = 3
[nodes.n1]
address = "localhost:7101"
zone = 1
[zones]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "cluster.toml"
    path.write_text(render_local("whitebox", [7101, 7102, 7103], name="shop"))
    return path


def test_configuration_and_the_directory_it_is_in_name_the_cluster_and_all_its_nodes(file: Path) -> None:
    expected = Place(ADDRESSES, "shop")
    assert [place_of(file), place_of(str(file)), place_of(file.parent), place_of(str(file.parent))] == [expected] * 4


def test_addresses_are_a_list_or_a_text_with_commas(file: Path) -> None:
    assert place_of(ADDRESSES) == place_of(", ".join(ADDRESSES)) == Place(ADDRESSES)
    assert place_of("localhost:7101") == Place(("localhost:7101",))


def test_what_a_client_does_not_need_may_be_of_a_later_version(tmp_path: Path) -> None:
    path = tmp_path / "other.toml"
    path.write_text(LATER)
    assert place_of(path) == Place(("localhost:7101",), "shop")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[cluster", ":1: this cannot be read as TOML"),
        ("[cluster]\nname = 'shop'\n", "section [nodes] is missing"),
        ("[nodes.n1]\naddress = 'h:1'\n", "section [cluster] is missing"),
        ("[cluster]\nname = 'a shop'\n[nodes.n1]\naddress = 'h:1'\n", ":2: cluster.name takes a name"),
        ("[cluster]\nname = 'shop'\n[nodes.n1]\naddress = 'h:http'\n", ":4: nodes.n1.address has no valid port"),
        ("[cluster]\nname = 'shop'\n[nodes.n1]\n", ":3: [nodes.n1] has no address"),
        ("[cluster]\nname = 'shop'\n[nodes]\nn1 = 1\n", ":4: nodes.n1 takes a table"),
        ("cluster = 1\nnodes = 2\n", ":1: cluster takes a table"),
    ],
)
def test_file_that_is_no_configuration_is_one_clear_error_with_its_line(tmp_path: Path, text: str, error: str) -> None:
    path = tmp_path / "cluster.toml"
    path.write_text(text)
    with pytest.raises(ClusterUnreachable) as found:
        place_of(path)
    assert error in str(found.value)
    assert found.value.is_final


@pytest.mark.parametrize("cluster", ["nowhere", "nowhere.toml", "", ":7101", [], ["localhost:x"]])
def test_what_names_no_cluster_is_one_clear_error(cluster: str | list[str]) -> None:
    with pytest.raises(ClusterUnreachable, match=r"address|no such file"):
        place_of(cluster)
