"""How long a message is under way: distributions over whole ticks, and endless seeded sources of draws from them.

A source hands out its draws from a block that it refills, because a draw per message from a general generator
would cost as much as the rest of the message. Draws come from 16 random bits, so that they are the same everywhere.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from statistics import NormalDist

from braidcast.core.errors import BraidcastError
from braidcast.core.process import Ticks

BLOCK_DRAWS = 256
_UNPACK = struct.Struct(f"<{BLOCK_DRAWS}H").unpack
_QUANTILE_BITS = 10


class DelayError(BraidcastError):
    """A text that is not a delay."""


@dataclass(frozen=True)
class Constant:
    """Always the same."""

    ticks: Ticks

    def __str__(self) -> str:
        return str(self.ticks)


@dataclass(frozen=True)
class Uniform:
    """Every whole number of ticks from `low` to `high`, both included, equally often."""

    low: Ticks
    high: Ticks

    def __str__(self) -> str:
        return f"{self.low}..{self.high}"


@dataclass(frozen=True)
class Exponential:
    """`low` plus an exponentially distributed time of the given mean."""

    mean: Ticks
    low: Ticks = 0

    def __str__(self) -> str:
        return f"exponential {self.mean} {self.low}"


@dataclass(frozen=True)
class LogNormal:
    """Most near the median, a few far above it; `sigma_percent` is the deviation of the logarithm, times 100."""

    median: Ticks
    sigma_percent: int = 50

    def __str__(self) -> str:
        return f"lognormal {self.median} {self.sigma_percent}"


Delay = Constant | Uniform | Exponential | LogNormal


def parse_delay(text: str) -> Delay:
    """`10`, `5..20`, `exponential MEAN [LOW]` or `lognormal MEDIAN [SIGMA_PERCENT]`, all in ticks."""
    kind, *numbers = text.split()
    try:
        match kind:
            case "exponential":
                return Exponential(*(int(number) for number in numbers))
            case "lognormal":
                return LogNormal(*(int(number) for number in numbers))
            case _ if not numbers:
                low, dots, high = kind.partition("..")
                return Uniform(int(low), int(high)) if dots else Constant(int(low))
    except (TypeError, ValueError):
        pass
    raise DelayError(f"{text!r} is not a delay: write 10, 5..20, exponential 10 or lognormal 10 50")


@lru_cache
def _exponential_quantiles() -> tuple[float, ...]:
    steps = 1 << _QUANTILE_BITS
    return tuple(-math.log(1 - (i + 0.5) / steps) for i in range(steps))


@lru_cache(maxsize=64)
def _lognormal_quantiles(sigma_percent: int) -> tuple[float, ...]:
    steps, normal = 1 << _QUANTILE_BITS, NormalDist()
    return tuple(math.exp(sigma_percent / 100 * normal.inv_cdf((i + 0.5) / steps)) for i in range(steps))


class DelaySource:
    """Draws from one distribution. `block` holds the next ones; when it is empty, `refill` returns the next draw."""

    __slots__ = ("block", "delay", "random")

    def __init__(self, delay: Delay, random: Random) -> None:
        self.delay = delay
        self.random = random
        self.block: list[Ticks] = []

    def draw(self) -> Ticks:
        """The next delay."""
        return self.block.pop() if self.block else self.refill()

    def refill(self) -> Ticks:
        """Fill the block and take one from it."""
        delay = self.delay
        if type(delay) is Constant:
            self.block.extend([delay.ticks] * BLOCK_DRAWS)
            return delay.ticks
        bits = _UNPACK(self.random.randbytes(2 * BLOCK_DRAWS))
        shift = 16 - _QUANTILE_BITS
        match delay:
            case Uniform(low, high):
                span = high - low + 1
                draws = [low + (b * span >> 16) for b in bits]
            case Exponential(mean, low):
                quantiles = _exponential_quantiles()
                draws = [low + int(mean * quantiles[b >> shift]) for b in bits]
            case LogNormal(median, sigma_percent):
                quantiles = _lognormal_quantiles(sigma_percent)
                draws = [int(median * quantiles[b >> shift]) for b in bits]
            case Constant(ticks):
                draws = [ticks] * BLOCK_DRAWS
        self.block.extend(draws)
        return self.block.pop()
