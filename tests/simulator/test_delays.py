"""Delays: reading them, and draws from them."""

from __future__ import annotations

from random import Random
from statistics import mean

import pytest

from braidcast.simulator.delays import (
    Constant,
    Delay,
    DelayError,
    DelaySource,
    Exponential,
    LogNormal,
    Uniform,
    parse_delay,
)


@pytest.mark.parametrize("delay", [Constant(10), Uniform(5, 20), Exponential(30, 2), LogNormal(10, 80), Uniform(-5, 5)])
def test_a_delay_is_read_as_it_is_written(delay: Delay) -> None:
    assert parse_delay(str(delay)) == delay


@pytest.mark.parametrize("text", ["soon", "5..", "exponential", "lognormal 1 2 3", "1 2"])
def test_a_text_that_is_no_delay_says_what_one_looks_like(text: str) -> None:
    with pytest.raises(DelayError, match="write 10"):
        parse_delay(text)


def draws(delay: Delay, count: int = 4000) -> list[int]:
    source = DelaySource(delay, Random(1))
    return [source.draw() for _ in range(count)]


def test_uniform_draws_cover_the_range_and_nothing_else() -> None:
    assert set(draws(Uniform(3, 12))) == set(range(3, 13))


def test_exponential_draws_have_their_mean_above_the_floor() -> None:
    found = draws(Exponential(100, 7))
    assert min(found) >= 7
    assert 95 < mean(found) - 7 < 105


def test_lognormal_draws_have_their_median() -> None:
    found = sorted(draws(LogNormal(1000, 50)))
    assert 950 < found[len(found) // 2] < 1050


def test_constant_draws_nothing_from_the_generator() -> None:
    random = Random(1)
    source = DelaySource(Constant(4), random)
    assert {source.draw() for _ in range(1000)} == {4}
    assert random.random() == Random(1).random()
