"""Nodes in network namespaces of their own on a bridge of this machine: their kernels cannot reach each other when cut.

Needs root and `ip`. What is made has names that begin with `bc` and the process id, and goes with `close`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from tests.cluster.faults.trial import WHITEBOX

from braidcast.cluster.config import load_config
from braidcast.cluster.config_text import render_local
from braidcast.settings import CLUSTER_FILE
from braidcast.trials.faulty_cluster import FaultyCluster
from braidcast.trials.proxies import Direction

PORT = 7101


class Namespaces:
    """The machines of some nodes."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.cuts: Counter[Direction] = Counter()
        tag = f"bc{os.getpid() % 100_000}"
        self.bridge, self.subnet = f"{tag}br", f"10.213.{os.getpid() % 250}"
        self.space = {name: f"{tag}{name}" for name in names}
        self.address = {name: f"{self.subnet}.{10 + number}" for number, name in enumerate(names)}
        try:
            _ip(f"link add {self.bridge} type bridge")
            _ip(f"addr add {self.subnet}.1/24 dev {self.bridge}")
            _ip(f"link set {self.bridge} up")
            for name, space in self.space.items():
                _ip(f"netns add {space}")
                _ip(f"link add {space} type veth peer name eth0 netns {space}")
                _ip(f"link set {space} master {self.bridge} up")
                _ip(f"-n {space} addr add {self.address[name]}/24 dev eth0")
                _ip(f"-n {space} link set eth0 up")
                _ip(f"-n {space} link set lo up")
        except subprocess.CalledProcessError:
            self.close()
            raise

    def cut(self, directions: Iterable[Direction]) -> None:
        """Packets of the one for the other go nowhere."""
        for sender, receiver in directions:
            self.cuts[sender, receiver] += 1
            if self.cuts[sender, receiver] == 1:
                _ip(f"-n {self.space[sender]} route add blackhole {self.address[receiver]}/32")

    def heal(self, directions: Iterable[Direction]) -> None:
        """Undo one cut of each."""
        for sender, receiver in directions:
            self.cuts[sender, receiver] -= 1
            if not self.cuts[sender, receiver]:
                _ip(f"-n {self.space[sender]} route del blackhole {self.address[receiver]}/32")

    def heal_all(self) -> None:
        """Undo every cut."""
        for direction, count in list(self.cuts.items()):
            self.heal([direction] * count)

    def close(self) -> None:
        """Take away whatever was made."""
        for space in self.space.values():
            subprocess.run(["ip", "netns", "del", space], capture_output=True, check=False)
        subprocess.run(["ip", "link", "del", self.bridge], capture_output=True, check=False)


def make_cluster(folder: Path, *, groups: int) -> FaultyCluster:
    """Three nodes, each in a namespace of its own."""
    network = Namespaces(["n1", "n2", "n3"])
    text = render_local(
        WHITEBOX.name, [PORT + i for i in range(3)], groups=groups,
        settings={"cluster": {"history": "history", "without_tls": "anyone may send and read"}},
    )  # fmt: skip
    for i, address in enumerate(network.address.values()):
        text = text.replace(f"127.0.0.1:{PORT + i}", f"{address}:{PORT + i}")
    file = folder / CLUSTER_FILE
    file.write_text(text, encoding="utf-8")
    faulty = FaultyCluster(load_config(file, lambda _: WHITEBOX), network)
    for name, command in faulty.cluster.commands.items():
        faulty.cluster.commands[name] = ["ip", "netns", "exec", network.space[name], *command]
    return faulty


@cache
def are_possible() -> bool:
    """Whether this machine lets us make them."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    try:
        Namespaces(["n1"]).close()
    except subprocess.CalledProcessError:
        return False
    return True


def _ip(words: str) -> None:
    subprocess.run(["ip", *words.split()], capture_output=True, check=True)
