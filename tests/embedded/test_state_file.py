"""The file of a state: durable before it takes the place of the one before, and whole or refused."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from braidcast.embedded.errors import StateLost
from braidcast.embedded.state_file import Kept, read_state, write_state


def test_state_is_durable_before_it_takes_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, done = tmp_path / "state" / "g0", list[str]()
    fsync, replace = os.fsync, os.replace

    def synced(file: int) -> None:
        name = Path(os.readlink(f"/proc/self/fd/{file}")).name
        done.append(f"sync {name} of {os.fstat(file).st_size if '.' in name else 0}")
        fsync(file)

    def replaced(old: Path, new: Path) -> None:
        done.append(f"replace {old.name}")
        replace(old, new)

    write_state(path, Kept(1, b"old"))
    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    write_state(path, Kept(2, b"new state"))
    assert done == ["sync g0.new of 29", "replace g0.new", "sync state of 0"]
    assert read_state(path) == Kept(2, b"new state")


def test_state_that_could_not_be_written_leaves_the_one_before_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "g0"
    write_state(path, Kept(1, b"old"))
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_state(path, Kept(2, b"new"))
    assert [each.name for each in tmp_path.iterdir()] == ["g0"]
    assert read_state(path) == Kept(1, b"old")


def test_every_byte_counts(tmp_path: Path) -> None:
    path = tmp_path / "g0"
    assert read_state(path) is None
    write_state(path, Kept((1 << 62) - 1, b"state"))
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(StateLost, match="is damaged"):
            read_state(path)
