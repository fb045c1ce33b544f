"""Ranges that a level of a call is drawn from: whole or real numbers, whose edges come often, or words. No torch."""

from dataclasses import dataclass
from math import exp, log
from random import Random

_EDGES = 0.5
"""How often a drawn number is an edge or beside one."""


@dataclass(frozen=True, kw_only=True)
class Whole:
    """Whole numbers from `low` to `high`, both included.

    Half of all draws are an edge, beside one, or one of `often`.
    """

    low: int
    high: int
    often: tuple[int, ...] = ()

    def draw(self, random: Random) -> int:
        """A number in the range."""
        edges = [self.low, self.low + 1, self.high - 1, self.high, *self.often]
        legal = [number for number in edges if self.low <= number <= self.high]
        return random.choice(legal) if random.random() < _EDGES else random.randint(self.low, self.high)

    def read(self, text: str) -> int:
        """The number that `text` writes; raises ValueError where it is none in the range."""
        number = int(text)
        if not self.low <= number <= self.high:
            raise ValueError(f"{text} is not {self}")
        return number

    def __str__(self) -> str:
        return f"from {self.low} to {self.high}"


@dataclass(frozen=True, kw_only=True)
class Extent:
    """Extents of tensors: multiples of `of` from `low` to `high`, both included.

    Kernels break where a number is odd, prime, beside a tile's or beyond a block's, and where one extent is whole tiles
    while another is not. So a quarter of all draws are an edge or beside one, an eighth lie beside a power of two, a
    quarter are multiples of one, and the others are uniform in the logarithm.
    """

    low: int = 1
    high: int
    of: int = 1

    def draw(self, random: Random) -> int:
        """A number in the range."""
        least, most = -(-self.low // self.of), self.high // self.of
        kind = random.random()
        if kind < 0.25:
            number = random.choice((least, least + 1, most - 1, most))
        elif kind < 0.375:
            number = 2 ** random.randint(least.bit_length(), most.bit_length()) + random.choice((-1, 1))
        else:
            number = round(exp(random.uniform(log(least), log(most))))
            if kind < 0.625:
                tile = 2 ** random.randint(3, max(3, most.bit_length() - 1))
                number = tile * max(1, round(number / tile))
        return self.of * min(max(number, least), most)

    def read(self, text: str) -> int:
        """The number that `text` writes; raises ValueError where it is none in the range."""
        number = int(text)
        if not self.low <= number <= self.high or number % self.of:
            raise ValueError(f"{text} is not {self}")
        return number

    def __str__(self) -> str:
        return f"from {self.low} to {self.high}" + (f", multiples of {self.of}" if self.of > 1 else "")


@dataclass(frozen=True, kw_only=True)
class Real:
    """Numbers from `low` to `high`: uniform, or uniform in the logarithm with `by_size`. Half are an edge or `often`.

    Written with six significant digits, so that a message can repeat them.
    """

    low: float
    high: float
    often: tuple[float, ...] = ()
    by_size: bool = False

    def draw(self, random: Random) -> float:
        """A number in the range."""
        if random.random() < _EDGES:
            return random.choice((self.low, self.high, *self.often))
        if self.by_size:
            return self._within(float(f"{exp(random.uniform(log(self.low), log(self.high))):.6g}"))
        return self._within(float(f"{random.uniform(self.low, self.high):.6g}"))

    def _within(self, number: float) -> float:
        return min(self.high, max(self.low, number))

    def read(self, text: str) -> float:
        """The number that `text` writes; raises ValueError where it is none in the range."""
        number = float(text)
        if not self.low <= number <= self.high:
            raise ValueError(f"{text} is not {self}")
        return number

    def __str__(self) -> str:
        return f"from {self.low:g} to {self.high:g}"


@dataclass(frozen=True, kw_only=True)
class Among:
    """One of some words, all equally often."""

    options: tuple[str, ...]

    @property
    def high(self) -> str:
        """The last of them."""
        return self.options[-1]

    def draw(self, random: Random) -> str:
        """One of them."""
        return random.choice(self.options)

    def read(self, text: str) -> str:
        """`text`; raises ValueError where it is none of them."""
        if text not in self.options:
            raise ValueError(f"{text} is not {self}")
        return text

    def __str__(self) -> str:
        return f"among {', '.join(self.options)}"


Range = Whole | Extent | Real | Among
