"""Delays: reading them, and draws from them."""

from __future__ import annotations

from random import Random
from statistics import mean

import pytest

from braidcast.simulator.delays import (
    TICKS_MAX,
    Constant,
    Delay,
    DelayError,
    DelaySource,
    Exponential,
    LogNormal,
    Uniform,
    parse_delay,
)


@pytest.mark.parametrize("delay", [Constant(10), Uniform(5, 20), Exponential(30, 2), LogNormal(10, 80), Uniform(0, 5)])
def test_a_delay_is_read_as_it_is_written(delay: Delay) -> None:
    assert parse_delay(str(delay)) == delay


NO_DELAYS = ["soon", "5..", "exponential", "lognormal 1 2 3", "1 2", "-5", "-5..5", "5..-50", "exponential -1"]


@pytest.mark.parametrize("text", NO_DELAYS)
def test_a_text_that_is_no_delay_says_what_one_looks_like(text: str) -> None:
    with pytest.raises(DelayError, match="write 10"):
        parse_delay(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("10..5", "lower end first, 5..10"),
        ("lognormal 10 100000", "a deviation of 1000 percent at most"),
        ("lognormal 10 1000", "choose a shorter one"),
        ("1000000001", "choose a shorter one"),
        ("exponential 999999999 5", "choose a shorter one"),
        ("9" * 5000, "choose a shorter one"),
    ],
)
def test_a_delay_that_cannot_be_drawn_is_refused_when_it_is_read(text: str, says: str) -> None:
    with pytest.raises(DelayError, match=says):
        parse_delay(text)


def test_the_longest_delay_that_is_accepted_can_be_drawn() -> None:
    assert max(draws(parse_delay("lognormal 1 600"))) < TICKS_MAX


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
