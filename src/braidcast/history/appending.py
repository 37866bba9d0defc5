"""Appending to a file, all or nothing: a write that the disk had no room for leaves nothing of itself behind."""

from __future__ import annotations

import errno
import os
from contextlib import suppress

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
"""The errors of a full disk: what failed may be tried again."""


def append_whole(file: int, data: bytes, size: int) -> None:
    """Write `data` at the end of a file that was opened to append and is `size` bytes long, or raise `OSError`."""
    left = memoryview(data)
    try:
        while left:
            left = left[os.write(file, left) :]
    except OSError:
        with suppress(OSError):  # the reason is the first error; whoever opens the file again cuts off what is torn
            os.ftruncate(file, size)
        raise
