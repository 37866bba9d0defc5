"""Running the Python of a page, one block after the other, as a notebook would."""

from __future__ import annotations

import ast
from types import CodeType, FunctionType
from typing import Any


async def run_all(codes: list[str], names: dict[str, Any], page: str) -> None:
    """Run them with one set of names; `await` and `async with` may stand at the top."""
    for code in codes:
        compiled = compile(code, page, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        assert isinstance(compiled, CodeType)
        result = FunctionType(compiled, names)()
        if result is not None:
            await result
