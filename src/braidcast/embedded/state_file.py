"""The state of a state machine on disk, with its place in the order: the whole of it or what was there before."""

from __future__ import annotations

import os
import struct
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from braidcast.cluster.journal_segments import make_folder, sync_folder
from braidcast.core.timestamps import Timestamp
from braidcast.embedded.errors import StateLost

MAGIC = b"braidst1"
_HEAD = struct.Struct("<8sIQ")


class Kept(NamedTuple):
    """A state, and the timestamp up to which it includes every delivery."""

    mark: Timestamp
    state: bytes


def write_state(path: Path, kept: Kept) -> None:
    """Durable when it returns; with an `OSError`, what was there before still is."""
    new = path.with_suffix(".new")
    try:
        make_folder(path.parent)
        with open(new, "wb") as file:
            file.write(_HEAD.pack(MAGIC, _sum_of(kept), kept.mark))
            file.write(kept.state)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
        sync_folder(path.parent)
    except OSError:
        with suppress(OSError):
            new.unlink(missing_ok=True)
        raise


def read_state(path: Path) -> Kept | None:
    """What was written last, or None."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StateLost(f"{path} cannot be read: {error.strerror or error}; nothing was changed") from None
    if len(data) >= _HEAD.size:
        magic, crc, mark = _HEAD.unpack_from(data)
        kept = Kept(mark, data[_HEAD.size :])
        if magic == MAGIC and crc == _sum_of(kept):
            return kept
    raise StateLost(
        f"{path} is damaged, or not the state of a state machine: nothing was changed; move the node's data directory "
        f"away and let the node rejoin"
    )


def _sum_of(kept: Kept) -> int:
    return crc32(kept.state, crc32(kept.mark.to_bytes(8, "little")))
