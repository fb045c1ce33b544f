"""Regimes that many problems have: how the values of their tensors differ from those of the timed calls. No torch.

`problems.inputs.regime_values` draws them; a problem's own regimes stand in its spec.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod

from problems.spec.ranges import Among, Extent, Range
from problems.spec.schema import ALL_OTHERS, EXACT, Dims, Regime, Tolerance

ALL_DTYPES = ("bfloat16", "float16", "float32")
"""For problems that only move or add values, which mean as much in any of them."""

_WIDE_RANGE = ("bfloat16", "float32")

TINY_VALUES = Regime(
    name="tiny_values",
    words="all values are below 1e-4 in size",
    settings={"values": "tiny"},
    dtypes=_WIDE_RANGE,
    narrow="drops_what_is_tiny",
)
HUGE_VALUES = Regime(
    name="huge_values",
    words="values are around ten million, beyond the range of float16",
    settings={"values": "huge"},
    dtypes=_WIDE_RANGE,
    narrow="in_float16",
)
ZERO_VALUES = Regime(
    name="zero_values",
    words="all values are zero",
    settings={"values": "zero"},
    narrow="divides_by_the_largest",
    hides=True,
)
ONE_RANK_HAS_VALUES = Regime(
    name="one_rank_has_values",
    words="all values are zero on every rank but one",
    settings={"values": "one_rank"},
    narrow="nothing_where_zero",
)
SPECIAL_VALUES = Regime(
    name="special_values",
    words="some values are torch.nan, infinite, subnormal or negative zero",
    settings={"values": "special"},
    narrow="clears_what_is_not_finite",
)
SPREAD_VALUES = Regime(
    name="spread_values",
    words="values are of all sizes from 1e-30 to one of up to 1e30",
    settings={"magnitudes": "spread"},
    dtypes=_WIDE_RANGE,
    narrow="six_bit_exponents",
)
"""Drawn by `problems.inputs.copied_values` alone."""


_ALL_BUT_FEW = Regime(
    name="mostly_plain",
    words="all values but eight or fewer of a tensor, at drawn places, are zero, one number, or powers of two",
    settings={"values": "plain", "plain": Among(options=("zero", "equal", "powers")), "left": "few"},
    narrow="nothing_where_a_part_is_plain",
)
MOSTLY_PLAIN = replace(
    _ALL_BUT_FEW,
    words="all values but those of a drawn quarter of the rows or columns are zero or powers of two",
    settings={"values": "plain", "plain": Among(options=("zero", "powers"))},
    apart=("other_extents",),
)
"""For sums: errors of one number are alike in all elements, and those of few elements do not average."""

EDGES = (
    "where edges are zero, so are the first half of rows, the last row and the outermost columns of each rank's {}, or "
    "of its parts by rank; where they are negative, outermost rows and columns are zero, and no element of one "
    "rank is above zero"
)
"""What `problems.families.zero_edges` makes of matrices."""


def other_extents(
    *, derive: Callable[[Dims, int], Dims] | None = None, narrow: str = "tail_left_out", **extents: Range
) -> Regime:
    """Tensors of other extents than those of timed calls: small, odd, beside powers of two."""
    return Regime(
        name="other_extents", words="tensors have other extents than usual", dims=extents, derive=derive, narrow=narrow
    )


def long_extent(
    name: str,
    *,
    derive: Callable[[Dims, int], Dims] | None = None,
    narrow: str = "tail_left_out",
    **extents: Range | int,
) -> Regime:
    """One extent is long, beyond what a block of threads holds, and the others are short."""
    return Regime(
        name=name, words="one extent is long, and the others are short", dims=extents, derive=derive, narrow=narrow
    )


def beyond_16_bits(
    name: str,
    *,
    derive: Callable[[Dims, int], Dims] | None = None,
    narrow: str = "tail_left_out",
    **extents: Range | int,
) -> Regime:
    """One extent is `MANY`, and the others are so short that tensors have a few million elements at most.

    Such a call takes long on processors, so it is in no other regime.
    """
    return Regime(
        name=name,
        words="one extent is above 65,536, more than 16 bits can number, and the others are short",
        dims=extents,
        at_large=False,
        derive=derive,
        narrow=narrow,
        apart=(ALL_OTHERS,),
    )


def shortened(dims: Dims, most: int, **least: int) -> Dims:
    """`dims`, where those named in `least` hold `most` elements together: the longest stays, and others shrink.

    None falls below what `least` says of it.
    """
    short: dict[str, int] = {name: dims[name] for name in least}
    for name in sorted(short, key=lambda name: short[name] / least[name])[:-1]:
        others = prod(extent for other, extent in short.items() if other != name)
        short[name] = max(least[name], min(short[name], most // others))
    return {**dims, **short}


MANY = Extent(low=65_600, high=70_000)
"""Also more than a grid of thread blocks has in its second dimension."""

COPIED_VALUES = (SPECIAL_VALUES, ZERO_VALUES, SPREAD_VALUES, ONE_RANK_HAS_VALUES, _ALL_BUT_FEW)
"""For tensors whose elements are only moved; `problems.inputs.copied_values` draws them."""
COPIED_SIZES = "Finite values are zero, or from 1e-40 to 1e31 in size. NaN and infinities come too."
"""An invariant: powers of two from -100 to 100, and subnormal numbers."""

CANCELLING_VALUES = Regime(
    name="cancelling_values",
    words="every two neighbouring values add up to zero, so that sums of rows say nothing",
    settings={"neighbours": "cancel"},
    narrow="nothing_where_sums_are_zero",
    apart=tuple(regime.name for regime in COPIED_VALUES),
)
"""The same for copies of rows and blocks."""


def of_tensor(name: str, *regimes: Regime) -> tuple[Regime, ...]:
    """Regimes whose words speak of the values of one tensor, where others keep theirs."""
    return tuple(replace(regime, words=regime.words.replace("values", f"values of {name}", 1)) for regime in regimes)


def further(most: int, *regimes: Regime) -> tuple[Regime, ...]:
    """`regimes`, whose tiny and huge values may be up to 2^`most` times as far from one."""
    levels = dict.fromkeys(("tiny_values", "huge_values"), ("0", str(most // 2), str(most)))
    return _with_level("further", levels, f"up to 2^{most} times as far from one", regimes)


def to_the_ends(least: str, most: str, *regimes: Regime) -> tuple[Regime, ...]:
    """`regimes`, where the largest of tiny or huge values may be `least` or `most`: `regime_values.at_end` does it."""
    levels = {
        "tiny_values": ("usual", f"{4 * float(least):g}", least),
        "huge_values": ("usual", f"{float(most) / 4:g}", most),
    }
    return _with_level("largest", levels, "nearly as far as is legal", regimes)


def _with_level(
    name: str, levels: Mapping[str, tuple[str, ...]], words: str, regimes: tuple[Regime, ...]
) -> tuple[Regime, ...]:
    return tuple(
        replace(
            one,
            words=f"{one.words}, or {words}",
            settings={**one.settings, name: Among(options=levels[one.name])},
        )
        if one.name in levels
        else one
        for one in regimes
    )


def exact_sums(*outputs: str, tolerance: Tolerance = EXACT) -> Regime:
    """Values whose partial sums over ranks are bfloat16 numbers in any order: what is sent in fewer bits shows.

    In such calls `outputs` have `tolerance`: an honest sum in bfloat16 or wider has no error at all.
    """
    return Regime(
        name="exact_sums",
        words="all partial sums over ranks are bfloat16 numbers, in any order, so that the sum has no rounding error",
        settings={"values": "exact_sums"},
        tolerances=dict.fromkeys(outputs, tolerance),
        narrow="ten_bit_wire",
        hides=True,
    )


def exact_products(*outputs: str, words: str, **settings: str) -> Regime:
    """Products in which one factor picks elements of the other: what is sent in fewer bits shows.

    In such calls `outputs` are compared exactly; `words` say what picks what. `settings` are more of the regime.
    """
    return Regime(
        name="exact_products",
        words=f"{words}, so that the product has no rounding error",
        settings={"product": "picks", **settings},
        tolerances=dict.fromkeys(outputs, EXACT),
        narrow="eleven_bit_wire",
        hides=True,
        apart=("tiny_values", "huge_values"),
    )


COPIED = Tolerance(
    atol=0.001,
    rtol=0.002,
    calibration="copies: honest programs leave noise of float32, and neighbours in bfloat16 are 0.0039 apart at least",
)


def copied_values(*outputs: str, words: str, tolerance: Tolerance = COPIED, apart: tuple[str, ...] = ()) -> Regime:
    """Calls in which the layer only copies: what is sent in fewer bits than a bfloat16 has shows in `outputs`.

    In regimes that it is `apart` from, the layer would do more.
    """
    return Regime(
        name="copied_values",
        words=f"{words}, so that the layer only copies and nothing is rounded",
        settings={"layer": "copies"},
        tolerances=dict.fromkeys(outputs, tolerance),
        narrow="ten_bit_wire",
        hides=True,
        apart=apart,
    )


SUMMED_VALUES = (TINY_VALUES, HUGE_VALUES, ZERO_VALUES, ONE_RANK_HAS_VALUES, MOSTLY_PLAIN)
"""For tensors that are summed over ranks, beside `exact_sums`."""


def of_product(sent: str, other: str, *, is_shared: bool = False) -> tuple[Regime, ...]:
    """Regimes of a product of two tensors, one of which travels itself or in partial sums: tiny and huge are both.

    `is_shared` says that the other one is the same on all ranks, so that it is never zero on one of them alone.
    """
    tiny = replace(TINY_VALUES, narrow="arguments_in_float16")
    return (
        *of_tensor(f"{sent} and {other}", tiny, HUGE_VALUES),
        *of_tensor(sent, ZERO_VALUES, ONE_RANK_HAS_VALUES, MOSTLY_PLAIN),
        *(() if is_shared else (zero_on_one_rank(other),)),
    )


def zero_on_one_rank(words: str) -> Regime:
    """Calls in which what `words` name is zero on one rank, drawn by `problems.inputs.regime_values.unless_zero`."""
    return Regime(
        name="zero_factor",
        words=f"all values of {words} are zero on one rank",
        settings={"factor": "zero"},
        narrow="divides_arguments_by_the_largest",
    )


FLOAT32_VALUES = (
    replace(TINY_VALUES, narrow="drops_below_1e_6"),
    replace(HUGE_VALUES, narrow="saturates_at_65536"),
    ZERO_VALUES,
    ONE_RANK_HAS_VALUES,
    MOSTLY_PLAIN,
)
"""As SUMMED_VALUES, for problems in float32, whose tolerance refuses programs in float16 in every call."""
