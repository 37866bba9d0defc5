"""Hosts that no resolver takes are refused where they are written."""

from __future__ import annotations

import pytest

from braidcast.settings.toml_lines import parse_address


@pytest.mark.parametrize("host", ["a..b", "a" * 70, "a." * 126 + "ab"])
def test_host_that_cannot_be_looked_up_is_no_address(host: str) -> None:
    with pytest.raises(ValueError, match="has no valid host"):
        parse_address(f"{host}:7101")
