"""What tests of hosted state machines begin with."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.embedded.bench import Bench

from braidcast.embedded import hosting
from braidcast.embedded.state_file import Kept


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def no_room(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """No room for a state until the patch is undone."""
    def full(path: Path, kept: Kept) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(hosting, "write_state", full)
        yield patched
