"""What the problems on one training step of a two-layer MLP say alike: arguments, sizes, cost. No torch."""

from collections.abc import Callable
from dataclasses import replace

from problems.spec.ranges import Among, Extent, Real, Whole
from problems.spec.regimes import ONE_RANK_HAS_VALUES
from problems.spec.schema import EXACT, Argument, ArgumentKind, Dims, Regime, Size, SizeName, Tolerance

SHAPES: dict[str, tuple[str, ...]] = {
    "W1": ("hidden", "d_in"),
    "b1": ("hidden",),
    "W2": ("d_out", "hidden"),
    "b2": ("d_out",),
}
"""Parameters by name, in their order."""

SAMPLES = (
    Argument(
        name="X_local", shape=("chunk", "d_in"), values="normal around a centre per rank, with a scale per feature"
    ),
    Argument(name="y_local", shape=("chunk", "d_out"), values="normal around a centre per rank"),
)
SHARDING = "rank r holds elements r*P/W to (r+1)*P/W - 1 of the flat vector"


def number(name: str, values: str, kind: ArgumentKind = ArgumentKind.REAL) -> Argument:
    """A number that all ranks get."""
    return Argument(name=name, kind=kind, dtype=kind.value, values=values, replicated=True)


RATES = (
    number("lr", "0.3 to 0.6 times the weights' standard deviation, secret"),
    number("beta1", "0.6 to 0.8, secret"),
    number("beta2", "0.85 to 0.95, secret"),
    number("eps", "a tenth to four tenths of the gradient's size, secret"),
)
STEP = number("step", "1 to 7, secret: the number of this step", ArgumentKind.INTEGER)

LEAST_EPS = Real(low=1e-14, high=1e-9, by_size=True)
"""What is left of a denominator where second moments are zero."""

NO_MOMENTUM = Regime(
    name="no_momentum", words="beta1 is 0", settings={"beta1": 0.0}, narrow="nothing_where_a_number_is_zero"
)
# The second moment is the square of the gradient; the first one may have another sign.
NO_MEMORY = Regime(
    name="no_memory",
    words="beta2 is 0, and beta1 is 0 or at most 0.6",
    settings={"beta1": Real(low=0.0, high=0.6, often=(0.0,)), "beta2": 0.0},
    narrow="nothing_where_a_number_is_zero",
)

NUMBERS_OF_ADAM = (
    NO_MOMENTUM,
    NO_MEMORY,
    # Moments so unlike that a correction of any early step shows.
    Regime(
        name="late_step",
        words="step is 100 or more, beta1 is 0.6 and beta2 is 0.95",
        # Some are beyond 16 bits, where these would take them for the first steps.
        settings={
            "step": Whole(low=100, high=10_000_000, often=(65_537, 65_538, 65_539, 131_073)),
            "beta1": 0.6,
            "beta2": 0.95,
        },
    ),
    # Beside it a learning rate that shows, unlike that of the default numbers.
    Regime(
        name="default_decays",
        words="beta1 is 0.9, beta2 is 0.999 and eps is 1e-8, while lr is as in timed calls",
        settings={"beta1": 0.9, "beta2": 0.999, "eps": 1e-8},
    ),
    Regime(
        name="many_steps",
        words="step is 8 or more, beta1 is 0.9, beta2 is 0.999 and eps is 1e-8, while lr is as in timed calls",
        settings={
            "step": Whole(low=8, high=2500, often=(1001, 1201, 1500, 2000)),
            "beta1": 0.9,
            "beta2": 0.999,
            "eps": 1e-8,
        },
    ),
    # Beyond any step from which corrections might be taken for settled.
    Regime(
        name="slow_decay",
        words="step is 10,000 or more, beta1 is 0.9, beta2 is 0.9999 and eps is 1e-8, while lr is as in timed calls",
        settings={
            # Corrections show up to about here; `late_step` has later ones.
            "step": Whole(low=10_000, high=30_000, often=(12_000, 16_000, 20_000)),
            "beta1": 0.9,
            "beta2": 0.9999,
            "eps": 1e-8,
        },
    ),
    Regime(
        name="default_numbers",
        words="lr is 0.001, beta1 is 0.9, beta2 is 0.999 and eps is 1e-8",
        settings={"lr": 1e-3, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8},
        narrow="usual_numbers",
    ),
)
"""Regimes of numbers that every problem with a step of Adam has."""
FIRST_STEP = Regime(
    name="first_step",
    words="all moments are zero, as before a first step, while step is often 1 and at most 50",
    settings={"step": Whole(low=1, high=50, often=(1, 1, 1, 1)), "moments": "zero"},
    # A step is then the sign of a gradient, also of one that is rounding alone.
    apart=("default_decays", "default_numbers"),
)
AT_THE_KINK = Regime(
    name="at_the_kink",
    words="half of each rank's samples (the first, or both the first and the last ones) and all of b1 are zero, where "
    "the derivative of relu counts as 0",
    settings={"samples": Among(options=("outer_zero", "half_zero"))},
)


def odd_parts(dims: Dims, world_size: int) -> Dims:
    """The least network for a regime's extents whose parameters can be cut into equal parts."""
    d_in, d_out = dims["d_in"], dims["d_out"]
    found = in_parts(samples=world_size, d_in=d_in, hidden=d_in + d_out, d_out=d_out, world_size=world_size)
    return {**dims, **found, "chunk": dims["chunk"]}


ODD_SIZES = Regime(
    name="odd_sizes",
    words="numbers of samples and widths are other ones, no multiples of a tile, and half of each rank's "
    "samples and all of b1 may be zero (half_zero)",
    settings={"samples": Among(options=("half_zero", "usual"))},
    dims={"chunk": Extent(low=8, high=150), "d_in": Extent(low=15, high=150), "d_out": Extent(low=16, high=48, of=16)},
    derive=odd_parts,
)


def long_parts(dims: Dims, world_size: int) -> Dims:
    """The dimensions of a regime's network, with the least hidden width that lets its parameters be cut."""
    drawn = {name: dims[name] for name in ("d_in", "hidden", "d_out")}
    return {**dims, **in_parts(samples=world_size, world_size=world_size, **drawn), "chunk": dims["chunk"]}


MANY_SAMPLES = Regime(
    name="many_samples",
    words="ranks have more than 1,024 samples, hidden is above 512, and the other widths are small",
    dims={
        "chunk": Extent(low=1030, high=2100),
        "d_in": Extent(low=15, high=33),
        "hidden": Extent(low=520, high=1100),
        "d_out": Extent(low=16, high=32, of=16),
    },
    derive=long_parts,
    narrow="tail_left_out",
)
WIDE_ENDS = Regime(
    name="wide_ends",
    words="d_in is above 512 and d_out above 256, and hidden is far below both",
    # Fewer samples would make gradients so much larger than moments that their sign alone decides a step.
    dims={
        "chunk": Extent(low=150, high=260),
        "d_in": Extent(low=520, high=1100),
        "hidden": Extent(low=45, high=70),
        "d_out": Extent(low=272, high=320, of=16),
    },
    derive=long_parts,
    narrow="tail_left_out",
)


def wide_ends(**parameters: Tolerance) -> Regime:
    """`WIDE_ENDS` with room for extreme elements of `parameters`: outputs and what they have in other calls."""
    tolerances = {
        name: replace(
            tolerance,
            atol=0.6,
            calibration="2026-11-30, CPU, torch 2.13, gloo, bfloat16, tiny, 4 ranks, 170 calls: of 50 times as many "
            "elements as in usual calls, an honest one erred by 0.99 times 0.15 of the parameters' size. The "
            "rms decides.",
        )
        for name, tolerance in parameters.items()
    }
    return replace(WIDE_ENDS, tolerances=tolerances)


REGIMES = (
    AT_THE_KINK,
    ODD_SIZES,
    MANY_SAMPLES,
    WIDE_ENDS,
    Regime(
        name="tiny_gradients",
        words="targets, the last layer and moments are below 1e-5 in size, and so are gradients",
        settings={"values": "tiny"},
    ),
    Regime(
        name="huge_gradients",
        words="targets are around ten million, and gradients and moments are as much larger",
        settings={"values": "huge"},
    ),
    Regime(
        name="zero_gradients",
        words="targets, the last layer and moments (all, or the second ones) are zero, and so are gradients; eps is "
        "1e-9 or less",
        settings={"values": "zero", "moments": Among(options=("second_zero", "zero")), "eps": LEAST_EPS},
        hides=True,
        narrow="divides_by_the_largest",
    ),
    Regime(
        name="huge_weights",
        words="W1 is around ten million, beyond the range of float16, and X_local is as much smaller; or W1 is zero; "
        "or about half of the features are below 1e-13 (unequal), and their columns of W1 as much larger",
        settings={"weights": Among(options=("zero", "unequal", "huge"))},
        # Together, a first second moment of W1 would be below the least number of bfloat16.
        apart=("tiny_gradients",),
    ),
    replace(ONE_RANK_HAS_VALUES, words="all samples are zero on every rank but one"),
    FIRST_STEP,
    *NUMBERS_OF_ADAM,
)
"""What a step of this network with Adam has besides `no_learning`; programs of `variants.py` are right but for some."""
_CHOICES_OF_ADAM = (
    "Second moments are not negative.",
    "`beta1` is from 0 to 0.9, and `beta2` is 0 or from 0.85 to 0.9999.",
    "Where `beta2` is 0, `beta1` is at most 0.6.",
    "`step` is from 1 to 10,000,000.",
)
IN_PARTS = (
    "`d_out` is a multiple of 16.",
    "The number of parameters is a multiple of the number of ranks.",
)
"""Invariants where every rank owns an equal part of the parameters."""


def step_of_adam(*, values: str, eps: str, lr: str) -> tuple[str, ...]:
    """What every step of Adam keeps to, where `values` says how large tensors are, and the others give two ranges."""
    return (
        "Tensors are contiguous.",
        "All tensors are in bfloat16.",
        values,
        *_CHOICES_OF_ADAM,
        f"`eps` is {eps}, and `lr` is 0 or {lr}.",
    )


def step_of_network(*, values: str) -> tuple[str, ...]:
    """The same for a step of the two-layer network, beside what holds for `d_out` and the number of parameters."""
    return (
        *step_of_adam(values=values, eps="from 1e-14 to 2e5", lr="from 0.001 to 0.16"),
        "No element of `X_local` is above 60 in size.",
        "All ranks have equally many samples. Their number may be odd, and so may `d_in` and `hidden`.",
    )


def no_learning(*outputs: str, narrow: str = "eleven_bit_wire") -> Regime:
    """A learning rate of zero: the parameters among the outputs are copies."""
    return Regime(
        name="no_learning",
        words="lr is 0, so that parameters stay as they are",
        settings={"lr": 0.0},
        tolerances=dict.fromkeys(outputs, EXACT),
        narrow=narrow,
    )


def whole(*, samples: int, d_in: int, hidden: int, d_out: int, world_size: int) -> Dims:
    """Dimensions where every rank keeps all parameters; `samples` are those of all ranks."""
    return {
        "chunk": -(-samples // world_size),
        "d_in": d_in,
        "hidden": hidden,
        "d_out": d_out,
        "P": hidden * (d_in + 1 + d_out) + d_out,
    }


def in_parts(*, samples: int, d_in: int, hidden: int, d_out: int, world_size: int) -> Dims:
    """As `whole`, with the least hidden width from `hidden` on that lets the parameters be cut into equal parts."""
    while (hidden * (d_in + 1 + d_out) + d_out) % world_size:
        hidden += 1
    dims = whole(samples=samples, d_in=d_in, hidden=hidden, d_out=d_out, world_size=world_size)
    return {**dims, "part": dims["P"] // world_size}


def small_sizes(dims: Callable[..., Dims]) -> dict[SizeName, Size]:
    """The sizes below `large`; `dims` is `whole` or `in_parts`."""
    return {
        SizeName.TINY: Size(
            dims=lambda world_size: dims(samples=64, d_in=24, hidden=40, d_out=16, world_size=world_size),
            system="a check on CPU ranks",
        ),
        SizeName.BASE: Size(
            dims=lambda world_size: dims(samples=1024, d_in=256, hidden=512, d_out=256, world_size=world_size),
            system="1024 samples in all, 0.26 million parameters: latency alone",
        ),
    }


def matmul_flops(dims: Dims) -> int:
    """Of a rank's samples: two products forward, three backward (no gradient of the input)."""
    return 2 * dims["chunk"] * (2 * dims["d_in"] * dims["hidden"] + 3 * dims["hidden"] * dims["d_out"])


def sample_bytes(dims: Dims, element_bytes: int) -> int:
    """A rank's samples, read once."""
    return element_bytes * dims["chunk"] * (dims["d_in"] + dims["d_out"])


def refuses_uneven_parts(world_size: int) -> str | None:
    """Refuse world sizes that are not powers of two."""
    is_power = world_size >= 2 and world_size & (world_size - 1) == 0
    return None if is_power else f"needs a power of two from 2 on, got {world_size}"
