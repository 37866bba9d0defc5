"""One schema, and a page that says what is in it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from braidcast.history.columns import COLUMNS, Row, columns_table
from braidcast.history.envelope import PLACE
from braidcast.history.manifest import SCHEMA_VERSION
from braidcast.history.schema import SCHEMA, VERSION_KEY

DOCS = Path(__file__).resolve().parents[2] / "docs" / "history.md"


def test_the_schema_has_the_columns_of_the_table_and_a_version() -> None:
    assert SCHEMA.names == [column.name for column in COLUMNS] == list(PLACE)
    assert SCHEMA.metadata[VERSION_KEY] == str(SCHEMA_VERSION).encode()
    assert [field.name for field in SCHEMA if not field.nullable] == [c.name for c in COLUMNS if c.always]


def test_a_row_has_an_attribute_for_every_column_that_a_message_fills() -> None:
    head = {"run", "protocol", "node", "incarnation", "group", "seqno", "t_mono", "t_wall", "event", "peer", "role"}
    whole = {"client": "id", "session": "id", "seq": "id", "about_group": "group"}
    expected = {whole.get(name, name) for name in PLACE if name not in head}
    assert set(Row.__slots__) == expected


def test_the_page_on_histories_has_the_table_of_columns() -> None:
    assert columns_table() in DOCS.read_text(encoding="utf-8")


def test_recording_and_judging_need_no_pyarrow() -> None:
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "import braidcast.history.event, braidcast.history.manifest, braidcast.properties.check\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
