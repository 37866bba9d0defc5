"""Fenced blocks of a Markdown text."""

from __future__ import annotations

import re


def fences(text: str) -> list[tuple[str, str]]:
    """All of them in order, each with its language; an empty one where none is named."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def blocks(text: str, language: str) -> list[str]:
    """Those of one language; an empty one is that of blocks which name none."""
    return [block for named, block in fences(text) if named == language]
