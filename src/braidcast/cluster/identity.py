"""Who a node is: the file `identity.json` in its data directory, and what it knows of the disks of its peers.

1. A data directory belongs to one node of one cluster for ever; it has a random name, its *disk*.
2. `incarnation` is larger at every start of the node, also after its disk was lost, and is durable before the node says
   anything. It counts starts, from 1; on a disk that replaces a lost one, from the time in seconds.
3. A node remembers, durably, the disk of every peer that it ever talked to. A peer that comes with another disk has
   lost what it promised and accepted; it is turned away unless an operator says that it rejoins, and the disk that it
   replaces is never taken again.
4. It knows the id of its log, and how far that was when the node last started: both are durable before the node says
   anything. A log that is gone, another one, or an older copy of it is amnesia, and never begun anew.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from braidcast.cluster.lacking import ADVICE, lack_of
from braidcast.core.errors import BraidcastError

NAME = "identity.json"
FORMAT = 2
LOCK = "lock"
IN_MEMORY = "memory"
"""In place of the id of a log: the node has none, and forgets with every stop."""
INCARNATION_MAX = 1 << 53
"""A larger one was not counted."""


class IdentityError(BraidcastError):
    """A data directory that is not this node's, or not whole."""


@dataclass(slots=True)
class PeerDisks:
    """The disk that a peer has, and those that it had before."""

    disk: str
    former: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Identity:
    """The contents of the file."""

    path: Path
    cluster: str
    fingerprint: str
    node: str
    disk: str
    incarnation: int
    rejoins: bool
    """This disk replaces one that was lost; as long as it holds no record, what was on that one is to be restored."""
    log: str = ""
    """The id of its log; empty until there is one, and as long as it is, the node has said nothing."""
    log_number: int = 0
    """Where the log went on at the last start, at least."""
    peers: dict[str, PeerDisks] = field(default_factory=dict)

    def save(self) -> None:
        """Write it durably: the old file or the new one is there, whatever happens."""
        data = {
            "format": FORMAT, "cluster": self.cluster, "fingerprint": self.fingerprint, "node": self.node,
            "disk": self.disk, "incarnation": self.incarnation, "rejoins": self.rejoins,
            "log": self.log, "log_number": self.log_number,
            "peers": {name: {"disk": known.disk, "former": known.former} for name, known in self.peers.items()},
        }  # fmt: skip
        temporary = self.path.with_suffix(".tmp")
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(json.dumps(data, indent=2) + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, self.path)
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def why_not(self, peer: str, disk: str, rejoins: bool) -> str | None:
        """Why a peer with that disk is turned away, or None; a disk that is new here is remembered."""
        known = self.peers.get(peer)
        if known is not None and known.disk == disk:
            return None
        if known is None:
            now = PeerDisks(disk)
        elif disk in known.former:
            return f"the disk of node {peer} was replaced by another one: this is the old one, do not start it again"
        elif not rejoins:
            return (
                f"node {peer} comes with another disk than it had, so it has lost what it promised: "
                f"if its data is lost for good, start it once with --rejoin"
            )
        else:
            now = PeerDisks(disk, [*known.former, known.disk])
        before, self.peers = self.peers, {**self.peers, peer: now}
        try:
            self.save()
        except OSError:
            self.peers = before
            raise
        return None


def open_identity(
    folder: Path, cluster: str, fingerprint: str, node: str, *, rejoin: bool = False, in_memory: bool = False
) -> Identity:
    """The identity of a node that starts: read, or made if the directory is empty; the start is counted.

    A node that keeps its state `in_memory` loses it with every stop: its directory holds nothing else, and may stay.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / NAME
        if path.exists():
            if rejoin and not in_memory:
                raise IdentityError(
                    f"{folder} holds the data of node {node}, so nothing is lost: start without --rejoin, or move the "
                    f"directory away first if it is damaged"
                )
            identity = _read(path)
            _check(identity, cluster, fingerprint, node)
            if rejoin:
                identity.disk, identity.rejoins, identity.log = uuid.uuid4().hex, True, ""
        else:
            own = (path.with_suffix(".tmp").name, LOCK)
            if left := sorted(found.name for found in folder.iterdir() if found.name not in own):
                raise IdentityError(
                    f"{folder} has no {NAME} but holds {left[0]}: give node {node} an empty directory; if it ran here "
                    f"before, bring the file back, or move the directory away and start with --rejoin"
                )
            starts = int(time.time()) if rejoin else 0
            identity = Identity(path, cluster, fingerprint, node, uuid.uuid4().hex, starts, rejoin)
        identity.incarnation += 1
        if in_memory:
            identity.log = IN_MEMORY
        identity.save()
    except OSError as error:
        raise no_place(folder, node, error) from None
    return identity


def no_place(folder: Path, node: str, error: OSError) -> IdentityError:
    """What to raise when a directory cannot be used, with what the operator has to do."""
    if lack := lack_of(error):
        advice = f"{ADVICE[lack]}, nothing is lost"
    else:
        advice = (
            f"it must be a directory that this user can write to, and {NAME} a file in it; nothing was changed: put "
            f"right what is there, or give the node another place (`data` in the configuration)"
        )
    return IdentityError(f"{folder} cannot hold the data of node {node}: {error.strerror or error}; {advice}")


def _read(path: Path) -> Identity:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["format"] != FORMAT:
            raise IdentityError(
                f"{path} has format {data['format']}, this braidcast reads format {FORMAT}: use the one that wrote it"
            )
        peers = {str(name): PeerDisks(str(known["disk"]), list(known["former"])) for name, known in _items(data)}
        return Identity(
            path, str(data["cluster"]), str(data["fingerprint"]), str(data["node"]), str(data["disk"]),
            _count(data["incarnation"], 1), bool(data["rejoins"]), _text(data["log"]), _count(data["log_number"], 0),
            peers,
        )  # fmt: skip
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise IdentityError(
            f"{path} is damaged ({type(error).__name__}): move the data directory away and start the node with "
            f"--rejoin; do not put back an older copy of the file, with which the others turn it away"
        ) from None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _count(value: object, least: int) -> int:
    if type(value) is not int or not least <= value < INCARNATION_MAX:
        raise ValueError(f"{value!r} was not counted")
    return value


def _items(data: Mapping[str, Mapping[str, Mapping[str, str]]]) -> list[tuple[str, Mapping[str, str]]]:
    return list(data["peers"].items())


def _check(found: Identity, cluster: str, fingerprint: str, node: str) -> None:
    if found.node != node or found.cluster != cluster:
        raise IdentityError(
            f"{found.path.parent} holds the data of node {found.node} of cluster {found.cluster}, not of node {node} "
            f"of cluster {cluster}: give each node a directory of its own"
        )
    if found.fingerprint != fingerprint:
        raise IdentityError(
            f"{found.path.parent} was made for other groups, members or protocol options (fingerprint "
            f"{found.fingerprint}, the configuration has {fingerprint}): they cannot change in a running cluster"
        )
