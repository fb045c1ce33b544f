"""What the problems on causal attention split over ranks say alike. No torch."""

from collections.abc import Callable
from dataclasses import replace

from problems.spec.ranges import Among, Real, Whole
from problems.spec.schema import Argument, ArgumentKind, Dims, Hop, Regime
from problems.spec.taxonomy import Communication

SCALE_AND_CAUSAL = (
    Argument(
        name="softmax_scale",
        kind=ArgumentKind.REAL,
        dtype="float",
        values="None (then head size^-0.5) or a secret number near that; new on every call",
        replicated=True,
    ),
    Argument(name="causal", kind=ArgumentKind.BOOLEAN, dtype="bool", values="True in timed calls", replicated=True),
)

NOT_CAUSAL = Regime(
    name="not_causal",
    words="causal is False: every position sees every other",
    settings={"causal": False},
    narrow="usual_numbers",
)

FLAT_SCALE = Regime(
    name="flat_scale",
    words="softmax_scale is a hundredth of the default, so that all keys that are seen weigh nearly alike",
    settings={"softmax_scale": 0.01},
    apart=("copied_values",),
)

STEEP_SCALE = Regime(
    name="steep_scale",
    words="softmax_scale is so many times the default, so that a query weighs few keys",
    settings={"softmax_scale": Real(low=1.0, high=8.0, often=(2.0,), by_size=True)},
    apart=("large_scores", "negative_scores"),
    narrow="usual_numbers",
)

LARGE_SCORES = Regime(
    name="large_scores",
    words="all scores are beyond 100: their exponentials overflow float32 unless a maximum is subtracted",
    settings={"scores": "large"},
    hides=True,
)

LARGER_SCORES = replace(LARGE_SCORES, settings={"scores": "large", "added": Real(low=150.0, high=760.0, by_size=True)})
"""With what is added at the default scale, of which a call may have up to 1.25 times: scores reach nearly 1000."""

NEGATIVE_SCORES = Regime(
    name="negative_scores",
    words="all scores are below -150: their exponentials are zero in float32 unless the true maximum is subtracted",
    settings={"scores": "negative"},
    hides=True,
)

LOW_BELOW_MASKED = replace(
    NEGATIVE_SCORES,
    words="scores are below -150: their exponentials are zero in float32 unless the maximum over keys that are seen "
    "is subtracted; where causal is True, scores between a rank's first and last positions are above 150",
    settings={"scores": "masked_high", "added": Real(low=250.0, high=760.0, by_size=True)},
)
"""As NEGATIVE_SCORES, for causal attention: a maximum over masked keys is far above those of early positions."""

HUGE_KEYS = Regime(
    name="huge_keys",
    words="keys are around ten million, beyond the range of float16, and queries as much smaller",
    settings={"keys": "huge"},
    dtypes=("bfloat16", "float32"),
    narrow="in_float16",
)

UNEVEN_KEYS = replace(
    HUGE_KEYS,
    words=f"{HUGE_KEYS.words}, or the other way round (tiny)",
    settings={"keys": Among(options=("huge", "tiny"))},
)

HUGE_POSITIONS = Regime(
    name="huge_positions",
    words="each channel of hidden_states is below 1e-4, around ten million, beyond the range of float16, or as usual, "
    "and w_qkv is as much larger or smaller there (unequal); or all are below 1e-4 (tiny), or queries are around ten "
    "million and keys as much smaller (queries)",
    settings={"positions": Among(options=("tiny", "unequal", "queries"))},
    apart=("large_scores", "negative_scores"),
    dtypes=("bfloat16", "float32"),
    narrow="arguments_in_float16",
)

MORE_HEADS = Regime(
    name="more_heads",
    words="there are twice as many heads, of half the size, as in timed calls of this size",
    settings={"times_heads": 2},
    narrow="usual_numbers",
)


def other_length(heads: Whole, derive: Callable[[Dims, int], Dims]) -> Regime:
    """Another number of positions of other sequences and, of the usual size, `heads`."""
    return Regime(
        name="other_length",
        words="a rank holds another number of positions, of another number of sequences, for another number of heads",
        dims={
            "B": Whole(low=2, high=3),
            "S_local": Whole(low=1, high=95, often=(7, 9, 15, 17, 65)),
            "heads_local": heads,
        },
        derive=derive,
    )


def one_position(heads: Whole, derive: Callable[[Dims, int], Dims]) -> Regime:
    """As `other_length`, with single positions, which see those of other ranks all the same."""
    other = other_length(heads, derive)
    return replace(
        other,
        name="one_position",
        words="a rank holds one position of each sequence, and there are several context ranks",
        dims={**other.dims, "S_local": 1},
        least_world_size=4,
    )


def wide_heads(derive: Callable[[Dims, int], Dims]) -> Regime:
    """More positions of a rank than a block of threads has, and heads of the largest size."""
    return Regime(
        name="wide_heads",
        words="a rank holds more than 128 positions of one sequence, and one or two heads of 128 channels",
        dims={"B": 1, "S_local": Whole(low=129, high=200, often=(160,)), "heads_local": Whole(low=1, high=2)},
        derive=derive,
        narrow="tail_left_out",
        # Copies need more than one head. Keys that weigh alike average, and more of what is left is rounding.
        apart=("more_heads", "copied_values", "flat_scale"),
    )


def many_heads(derive: Callable[[Dims, int], Dims]) -> Regime:
    """More heads than a block of threads has warps, of the least size."""
    return Regime(
        name="many_heads",
        words="a rank has more than 16 heads, of 32 channels each, of which there are few positions",
        dims={"B": Whole(low=1, high=2), "S_local": Whole(low=5, high=16), "heads_local": Whole(low=17, high=20)},
        derive=derive,
        narrow="tail_left_out",
        apart=("more_heads", "copied_values", "flat_scale"),
    )


OTHER_SHAPE = Regime(
    name="other_shape",
    words="a rank holds another number of positions, of another number of sequences and of heads",
    dims={
        "B": Whole(low=2, high=3),
        "S_local": Whole(low=5, high=95, often=(7, 9, 15, 17, 65)),
        "num_heads": Whole(low=1, high=5),
    },
)


SCORES = "Scores lie between -980 and 980."
"""An invariant: up to 760 or 950 is added to usual scores, at up to 1.25 times the default scale."""


def softmax_scale(most: float) -> str:
    """What `softmax_scale` may be: the default, near it, up to `most` times that, or flat."""
    return f"`softmax_scale` is None, a hundredth of the default, or 0.75 to {most:g} times the default."


def least_exchange(ranks: int, *, by_keys: int = 2, by_queries: int = 2) -> float:
    """The fewest blocks that a rank moves one way, on average over the ranks; a block is one tensor of its shard.

    For a pair of shards either the earlier one's keys and values travel (and their gradients back: `by_keys` blocks)
    or the later one's queries, and their result back (`by_queries`). Or one rank attends for all of a head: then each
    of the others moves its own once, the first one only keys and the last one only queries. Another rank can do so for
    another head, so that all have the same work.
    """
    pairwise = ranks * (ranks - 1) / 2 * min(by_keys, by_queries)
    at_one_rank = (ranks - 2) * (by_keys + by_queries) if ranks > 2 else pairwise
    return min(pairwise, at_one_rank) / ranks


RING_STEP = Hop(
    source="context rank c",
    target="context rank c + 1",
    payload="a block of keys and values, cp_size - 1 times",
    pattern=Communication.SEND_RECV,
)
