"""Fenced blocks of a Markdown text."""

from __future__ import annotations

import re


def blocks(text: str, language: str) -> list[str]:
    """Those of one language; an empty one is that of blocks which name none."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [block for named, block in found if named == language]
