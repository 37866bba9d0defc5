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
TICKS_MAX: Ticks = 1_000_000_000
"""The longest time that a text may name: more than a quarter of an hour, where a tick is a microsecond."""
SIGMA_PERCENT_MAX = 1_000


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
    delay = _read(text)
    if delay is None:
        raise DelayError(f"{text!r} is not a delay: write 10, 5..20, exponential 10 or lognormal 10 50")
    if isinstance(delay, Uniform) and delay.low > delay.high:
        raise DelayError(f"{text!r} is not a delay: write the lower end first, {delay.high}..{delay.low}")
    if isinstance(delay, LogNormal) and delay.sigma_percent > SIGMA_PERCENT_MAX:
        raise DelayError(f"{text!r} is not a delay: give a deviation of {SIGMA_PERCENT_MAX} percent at most")
    if highest(delay) > TICKS_MAX:
        raise DelayError(f"{text!r} is not a delay: it may be longer than {TICKS_MAX:,} ticks, choose a shorter one")
    return delay


def _read(text: str) -> Delay | None:
    kind, *words = text.split()
    dots = ""
    if kind not in ("exponential", "lognormal"):
        if words:
            return None
        low, dots, high = kind.partition("..")
        words = [low, high] if dots else [low]
    if not 1 <= len(words) <= 2 or not all(word.isascii() and word.isdecimal() for word in words):
        return None  # a negative delay would let a message arrive before it was sent
    if max(map(len, words)) > len(str(TICKS_MAX)):
        raise DelayError(f"{text!r} is not a delay: it may be longer than {TICKS_MAX:,} ticks, choose a shorter one")
    numbers = [int(word) for word in words]
    match kind:
        case "exponential":
            return Exponential(*numbers)
        case "lognormal":
            return LogNormal(*numbers)
    return Uniform(*numbers) if dots else Constant(*numbers)


def highest(delay: Delay) -> Ticks:
    """The longest delay that can be drawn."""
    match delay:
        case Constant(ticks):
            return ticks
        case Uniform(_, high):
            return high
        case Exponential(mean, low):
            return low + int(mean * _exponential_quantiles()[-1])
        case LogNormal(median, sigma_percent):
            return int(median * _lognormal_quantiles(sigma_percent)[-1])


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
