"""What an operation on files may lack for a while: it has changed nothing, and may be made again as it was.

Room on the disk comes back when somebody makes room, and a file to open when something else has been closed. Whoever
meets one of these holds back what rests on the operation, says what is lacking, and goes on when it is there.
"""

from __future__ import annotations

import errno
from typing import Final

ROOM: Final = "the disk is full"
FILES: Final = "too many open files"
_LACKS: Final = {errno.ENOSPC: ROOM, errno.EDQUOT: ROOM, errno.EMFILE: FILES, errno.ENFILE: FILES}
ADVICE: Final = {ROOM: "make room", FILES: "raise its limit of them (ulimit -n)"}


def lack_of(error: OSError) -> str:
    """What was lacking, in words; empty if the operation failed for good."""
    return _LACKS.get(error.errno or 0, "")
