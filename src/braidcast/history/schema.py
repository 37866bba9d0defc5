"""The one Arrow schema of events: explicit, versioned, and the same for every writer and reader.

Every integer that can grow is int64, because a widened column stops readers of many files cold.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from braidcast.history.columns import COLUMNS, GROUPS, IDS, INT, INTS, TEXT
from braidcast.history.manifest import SCHEMA_VERSION

VERSION_KEY: Final = b"braidcast.schema_version"
ARROW_TYPES: Final[dict[str, Any]] = {
    TEXT: pa.string(),
    INT: pa.int64(),
    GROUPS: pa.list_(pa.int32()),
    INTS: pa.list_(pa.int64()),
    IDS: pa.list_(pa.struct([("client", pa.int64()), ("session", pa.int64()), ("seq", pa.int64())])),
}
SCHEMA: Final = pa.schema(
    [pa.field(c.name, ARROW_TYPES[c.kind], nullable=not c.always) for c in COLUMNS],
    metadata={VERSION_KEY: str(SCHEMA_VERSION).encode()},
)
"""The schema of every file in the `events` folder of a history."""
