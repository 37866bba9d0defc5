"""What a client remembers over its restarts: its id, and which sessions it has used.

1. Both are durable before the first message of a session leaves. No number of a session is ever used twice, however the
   clock goes, so the numbers of messages begin anew in each and need not be stored.
2. One client uses a file at a time: a lock beside it says so, and goes with the process.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import msgspec

from braidcast.client.errors import StateUnusable
from braidcast.client.sender import new_session
from braidcast.core.topology import Pid
from braidcast.wire.subject import is_id_of, new_client_id

try:
    import fcntl
except ImportError:  # not a Unix: who starts a client twice there is not told
    fcntl = None  # type: ignore[assignment]


class Remembered(msgspec.Struct, forbid_unknown_fields=True):
    """The file, as JSON."""

    cluster: str
    client: Pid
    session: int
    """The highest that was ever used."""


class ClientState:
    """The file of one client, or none."""

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        self.path = Path(path) if path is not None else None
        self.client: Pid = 0
        self.session = 0
        """The highest that was ever used."""
        self._cluster = ""
        self._lock: int | None = None

    def open(self, name: str = "") -> None:
        """Learn who this client is; with a certificate, it is one of the ids of the name in that."""
        self.client = new_client_id(name)
        if self.path is None:
            return
        try:
            self._take_lock(self.path)
            if self.path.exists():
                found = msgspec.json.decode(self.path.read_bytes(), type=Remembered)
                self.client, self.session, self._cluster = found.client, found.session, found.cluster
        except OSError as error:
            raise StateUnusable(f"{self.path} cannot hold the state of a client: {error.strerror or error}") from None
        except msgspec.MsgspecError as error:
            self.close()
            why = f"{self.path} is not the state of a client ({error}): with another file it is another client"
            raise StateUnusable(why) from None
        if name and not is_id_of(self.client, name):
            self.close()
            raise StateUnusable(f"{self.path} is not the state of client {name}: give each client a file of its own")

    def use(self, cluster: str) -> None:
        """This client talks to that cluster, and to no other."""
        if self._cluster not in ("", cluster):
            raise StateUnusable(f"{self.path} belongs to a client of cluster {self._cluster}, this is {cluster}")
        self._cluster = cluster

    def next_session(self) -> int:
        """A session that this client has never used, and will not use again."""
        self.session = max(new_session(), self.session + 1)
        if self.path is not None:
            self._save(self.path)
        return self.session

    def _save(self, path: Path) -> None:
        data = msgspec.json.encode(Remembered(self._cluster, self.client, self.session))
        try:
            _write_durably(path, data)
        except OSError as error:
            raise StateUnusable(f"{path} cannot be written: {error.strerror or error}") from None

    def close(self) -> None:
        """Let others use the file."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _take_lock(self, path: Path) -> None:
        if fcntl is None:
            return
        lock = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise StateUnusable(f"{path} is in use by another client: give each client a file of its own") from None
        self._lock = lock


def _write_durably(path: Path, data: bytes) -> None:
    """The whole of it or what was there before, whatever happens."""
    new = path.with_name(path.name + ".new")
    try:
        file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.write(file, data)
            os.fsync(file)
        finally:
            os.close(file)
        os.replace(new, path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError:
        with suppress(OSError):
            new.unlink(missing_ok=True)
        raise
