"""What an operator may choose, and what is said about what cannot work."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest

from braidcast.cli.registry import WHITEBOX
from braidcast.core.errors import OptionError
from braidcast.protocols.whitebox import Options

TIMES_AND_SIZES = [f.name for f in fields(Options) if f.type == "int"]


def test_defaults_are_valid() -> None:
    assert WHITEBOX.parse_options({}) == Options()


@pytest.mark.parametrize("name", TIMES_AND_SIZES)
def test_times_and_sizes_are_at_least_1(name: str) -> None:
    with pytest.raises(OptionError, match=rf"^whitebox: option {name} must be at least 1, not 0$"):
        WHITEBOX.parse_options({name: "0"})


def test_suspicion_takes_longer_than_a_heartbeat() -> None:
    line = "whitebox: option suspect_ticks (10) must exceed heartbeat_ticks (10)"
    with pytest.raises(OptionError, match=f"^{re.escape(line)}$"):
        WHITEBOX.parse_options({"suspect_ticks": "10", "heartbeat_ticks": "10"})


def test_follower_delivery_is_one_of_two() -> None:
    line = "whitebox option follower_delivery takes leader or early, not 'late'"
    with pytest.raises(OptionError, match=f"^{re.escape(line)}$"):
        WHITEBOX.parse_options({"follower_delivery": "late"})


@pytest.mark.parametrize("delay", [1, 10, 5_000])
def test_every_variant_of_a_campaign_is_valid_at_any_pace(delay: int) -> None:
    for variant in WHITEBOX.variants:
        paced = WHITEBOX.paced(WHITEBOX.parse_options(variant), delay)
        assert paced.heartbeat_ticks < paced.suspect_ticks


def test_options_do_not_change() -> None:
    with pytest.raises(AttributeError):
        Options().prevote = False  # type: ignore[misc]
