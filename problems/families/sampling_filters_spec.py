"""What the problems on filtered token log-probabilities say alike: arguments, sizes, hops. No torch."""

from collections.abc import Mapping
from dataclasses import replace
from math import gcd

from problems.spec.ranges import Among, Extent, Real, Whole
from problems.spec.regimes import other_extents
from problems.spec.schema import Argument, ArgumentKind, Cost, Dims, Hop, Regime, Size, SizeName
from problems.spec.taxonomy import Communication
from problems.spec.world_sizes import divisors_of

CARD_VOCABULARY = 256
LLAMA_VOCABULARY = 128256
"""Vocabulary of Llama 3.1 (its published configuration)."""

FILTERS = (
    Argument(name="tp_group", kind=ArgumentKind.GROUP, values="None: the world group"),
    Argument(name="top_k", kind=ArgumentKind.INTEGER, values="10; None in one call of eight"),
    Argument(name="top_p", kind=ArgumentKind.REAL, values="0.9; 1.0 in one call of eight"),
)
CHUNK_SIZE = Argument(
    name="chunk_size",
    kind=ArgumentKind.INTEGER,
    values="tokens of a chunk divided by B; several chunks except at the base size on 8 ranks",
)
LEAST_P, MOST_P = 0.001, 0.9999
"""The least `top_p`, and the largest that is below 1."""
_ROWS = Among(options=("usual", "flat"))
REGIMES = (
    Regime(name="other_k", words="top_k is another number", settings={"top_k": Whole(low=1, high=10, often=(3, 5, 7))}),
    Regime(
        name="no_top_k",
        words="top_k is None: top_p alone decides",
        settings={"top_k": None},
        narrow="usual_numbers",
        apart=("equal_leaders",),  # Nothing is removed then, so what a target of minus infinity gives is no one's word.
    ),
    Regime(
        name="no_filters",
        words="top_k is None and top_p is 1: nothing is removed",
        settings={"top_k": None, "top_p": 1.0},
        narrow="usual_numbers",
        apart=("equal_leaders", "masked_words", "low_words"),  # A target of minus infinity again.
    ),
    Regime(
        name="wide_nucleus",
        words="top_k is None and rows are nearly flat, some but for one word, so that top-p leaves many words: all of "
        "a shard and more",
        settings={"top_k": None, "top_p": Real(low=0.995, high=MOST_P, often=(MOST_P,)), "nucleus": True},
        at_large=False,  # The reference adds 128,256 probabilities up in bfloat16 there.
    ),
    Regime(
        name="equal_nucleus",
        words="top_k and top_p are set, and top-p leaves many equal logits at the top_k-th largest, of some tokens "
        "beside one that is higher",
        settings={"top_p": Real(low=0.995, high=MOST_P, often=(MOST_P,)), "nucleus": "equal"},
        at_large=False,  # As wide_nucleus.
        apart=("no_top_k",),
    ),
    Regime(
        name="other_p",
        words="top_p is another number",
        settings={"top_p": Real(low=LEAST_P, high=0.98, often=(0.02, 0.5))},
    ),
    Regime(
        name="largest_alone",
        words="top_k is 1 and top_p is 1: only the largest logit of a token survives",
        settings={"top_k": 1, "top_p": 1.0},
        hides=True,
        narrow="usual_numbers",
    ),
    Regime(
        name="masked_words",
        words="every second logit of a rank is minus infinity, but for the largest of a token",
        settings={"masked": True},
        narrow="no_number_from_infinity",
    ),
    Regime(
        name="low_words",
        words="every second logit of a rank is -1e32, but for the largest of a token",
        settings={"masked": "by_a_number"},
    ),
    Regime(
        name="equal_leaders",
        words="more than ten logits of a token are equal, the largest or all but five, at times zeros of both signs, "
        "and top_p is 1: all of these survive",
        settings={"top_p": 1.0, "equal_leaders": Among(options=("lowest", "highest"))},
    ),
    Regime(
        name="flat_rows",
        words="all logits of a token are equal and top_p is 1: all of them survive",
        settings={"top_p": 1.0, "flat": True},
        hides=True,
    ),
    Regime(
        name="large_logits",
        words="logits are higher by so much that the exponential of float32 overflows, and top_p is 1; rows are as "
        "usual or as in flat_rows",
        settings={"top_p": 1.0, "rows": _ROWS, "higher_by": Real(low=128.0, high=184.0)},
        hides=True,
    ),
    Regime(
        name="low_logits",
        words="logits are higher by a number so far below zero that the exponential of float32 is zero, and top_p is "
        "1; rows are as usual or as in flat_rows",
        settings={"top_p": 1.0, "rows": _ROWS, "higher_by": Real(low=-188.0, high=-132.0)},
        hides=True,
    ),
)


def _other_tokens(dims: Dims, world_size: int) -> Dims:
    """`dims` with as many tokens as `own` on every rank, in `B` sequences."""
    tokens = dims["own"] * world_size
    return {**dims, "S": tokens // dims["B"], "nt": tokens}


_MOST_LOGITS = 40_000
"""Of a rank's share of the tokens, on one rank: more take long on processors."""


def _other_tokens_and_vocabulary(dims: Dims, world_size: int) -> Dims:
    """As `_other_tokens`, with the vocabulary of all ranks, too; of many words there are few tokens."""
    dims = {**dims, "own": min(dims["own"], max(1, _MOST_LOGITS // dims["Vl"]))}
    return _other_vocabulary(_other_tokens(dims, world_size), world_size)


def _other_vocabulary(dims: Dims, world_size: int) -> Dims:
    """`dims` with the tokens and the vocabulary of all ranks that follow."""
    return {**dims, "V": world_size * dims["Vl"], "nt": dims["B"] * dims["S"]}


_SEQUENCES = Whole(low=1, high=2)
OTHER_TOKENS = Regime(
    name="other_tokens",
    words="there are other numbers of tokens than usual, `own` for each rank, in B sequences",
    dims={"B": _SEQUENCES, "own": Extent(high=140)},
    derive=_other_tokens,
    narrow="tail_left_out",
)
OTHER_EXTENTS = replace(
    other_extents(
        derive=_other_tokens_and_vocabulary, B=_SEQUENCES, own=Extent(high=17), Vl=Extent(low=9, high=40_000)
    ),
    words="tensors have other extents than usual: `own` tokens for each rank in B sequences, and Vl words on a rank",
    # More words would be more probabilities that the reference adds up in bfloat16.
    apart=("wide_nucleus", "equal_nucleus"),
)
NUCLEUS_OF_A_SHARD = Regime(
    name="nucleus_of_a_shard",
    words="top_k is None, a rank has hundreds of words, and rows are nearly flat: top-p leaves 129 to 256 neighbours, "
    "often all of one rank",
    settings={"top_k": None, "top_p": 0.99766, "nucleus": True},
    dims={"S": 8, "Vl": Extent(low=264, high=400, of=8)},
    at_large=False,  # As wide_nucleus.
    derive=_other_vocabulary,
)
MANY_EQUAL_WORDS = Regime(
    name="many_equal_words",
    words="as flat_rows, and a rank has more than a thousand words: all of them survive",
    settings={"top_p": 1.0, "flat": True},
    dims={"S": 8, "Vl": Extent(low=1025, high=4099)},
    derive=_other_vocabulary,
    hides=True,
)
CHUNKS = (
    Regime(
        name="small_chunks",
        words="chunk_size is the number of ranks, so that there are many chunks",
        settings={"chunk": "small"},
        at_large=False,
    ),
    Regime(
        name="least_chunks",
        words="chunk_size is the least that is legal, 0 where W divides B",
        settings={"chunk": "least"},
        at_large=False,
    ),
    Regime(
        name="whole_chunk",
        words="chunk_size is beyond S, so that the only chunk is shorter",
        settings={"chunk": "whole"},
        at_large=False,
    ),
)
_INVARIANTS = (
    "Tensors are contiguous.",
    "`tp_group` is None, the world group.",
    f"`top_k` is None or from 1 to 10, and `top_p` is 1 or a number from {LEAST_P} to {MOST_P}.",
    "The largest logit of a token is between -195 and 195; others may be lower, to about -1e32, or minus infinity.",
    "No logit is NaN, and at least 16 of a token are finite.",
    "Where nothing is filtered (`top_k` is None and `top_p` is 1), logits are at most 35 below a token's largest.",
    "Where `top_p` is below 1, it leaves at most 256 words of a token.",
    "Cumulative probabilities keep 0.009 away from 1 - `top_p`, or 9 % of it or of `top_p` where that is less.",
    "Where `top_p` removes something, equal logits stay or go together.",
    "Equal logits at the `top_k`-th largest may be any number, up to the whole vocabulary; 0.0 and -0.0 are equal.",
)
INVARIANTS = (
    *_INVARIANTS,
    "Every rank has as many words, and the number of ranks divides the tokens. B is 1 or 2.",
    "The vocabulary has 256, 32,000 or 128,256 words, or a multiple of 8 from 264 to 400 on each rank.",
)
"""Of the problem that goes through all tokens at once."""
CHUNKED_INVARIANTS = (
    *_INVARIANTS,
    "Every rank has as many words, perhaps an odd number, and the number of ranks divides the tokens. B is 1 or 2.",
    "`chunk_size` is 0 to 2 S + W, and the number of ranks divides the tokens of every chunk.",
)
CHUNK_OF_LOGITS = Hop(
    source="every rank",
    target="the rank that owns the tokens",
    payload="its Vl logits of each of those tokens, chunk by chunk",
    pattern=Communication.ALL_TO_ALL,
)
MARGIN_NOTE = (
    "Cumulative probabilities keep a distance from the top-p threshold, so that rounding decides nothing: 0.009, "
    "or 9 % of 1 - top_p or of top_p where that is less."
)
CHUNK_NOTES = (
    "The result does not depend on the chunk size; it bounds what the baseline holds at a time.",
    "On 8 ranks the base size has a single chunk.",
)
WORLD_SIZE_RULE = "a power of two up to 256"
divides_vocabularies = divisors_of(
    gcd(CARD_VOCABULARY, LLAMA_VOCABULARY),
    needs=f"at least 2 ranks, a divisor of {CARD_VOCABULARY} and {LLAMA_VOCABULARY}",
)


def logits_and_target(*, removed: str) -> tuple[Argument, Argument]:
    """The first two arguments; `removed` says what comes of a target that the filters remove."""
    return (
        Argument(
            name="vocab_parallel_logits",
            shape=("B", "S", "Vl"),
            values="normal and low in all columns but 16 per token, which lie around 2 and hold all but a thousandth "
            "of the mass; these columns and their logits are drawn anew on every call",
        ),
        Argument(
            name="target",
            shape=("B", "S"),
            dtype="int64",
            values="of each token one of its 16 leading columns, the most probable ones preferred, or one in eight "
            f"times any column; about half are filtered out, so that {removed}",
            replicated=True,
        ),
    )


def sized(*, batch: int, tokens: int, vocabulary: int, world_size: int) -> Dims:
    """Dimensions for about `tokens` tokens per sequence, rounded up to a multiple of the world size."""
    sequence = -(-tokens // world_size) * world_size
    return {
        "B": batch,
        "S": sequence,
        "V": vocabulary,
        "Vl": vocabulary // world_size,
        "nt": batch * sequence,
    }


def tiny(world_size: int) -> Dims:
    """Enough tokens to meet every kind of target."""
    return sized(batch=2, tokens=32, vocabulary=CARD_VOCABULARY, world_size=world_size)


def base(world_size: int) -> Dims:
    """The card's formulas at M = N = 1024: B = max(1, min(M // 512, 4)), S from max(W, min(M // 128, 32))."""
    return sized(batch=2, tokens=max(world_size, 8), vocabulary=CARD_VOCABULARY, world_size=world_size)


def _chunked(dims: Dims, chunk: int, world_size: int) -> Dims:
    """`dims` with chunks of about `chunk` positions per row, rounded up to a multiple of the world size."""
    return {**dims, "cs": min(-(-chunk // world_size) * world_size, dims["S"])}


def chunked_sizes() -> Mapping[SizeName, Size]:
    """The sizes of the problems that go chunk by chunk: at `tiny` on up to 4 ranks three, the last shorter."""

    def of_four(world_size: int) -> Dims:
        dims = base(world_size)
        return _chunked(dims, max(world_size, dims["S"] // 4), world_size)

    def large(world_size: int) -> Dims:
        dims = sized(batch=2, tokens=4096, vocabulary=LLAMA_VOCABULARY, world_size=world_size)
        return _chunked(dims, 1024, world_size)

    return {
        SizeName.TINY: Size(
            dims=lambda world_size: _chunked(tiny(world_size), 12, world_size), system="a smoke test on CPU ranks"
        ),
        SizeName.BASE: Size(dims=of_four, system="the card's size"),
        SizeName.LARGE: Size(
            dims=large,
            system="Llama 3.1 (vocabulary 128256) in GRPO post-training: 2 sequences of 4096 "
            "tokens, in chunks of 2048 tokens",
        ),
    }


def log_prob_cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """Filtering and log-softmax of the tokens; every logit is read once and compared once.

    The filters depend on few numbers per token and rank (its largest logits, or a maximum and a sum of exponentials),
    so the logits themselves need not travel. What must arrive at every rank are the results of the other ranks'
    tokens, in float32. Nothing has to be sorted: few logits are above a threshold.
    """
    tokens, shard = dims["nt"], dims["Vl"]
    remote = (world_size - 1) / world_size
    results = remote * tokens * 4
    return Cost(
        flops={"fp32": tokens * shard},
        memory_bytes=element_bytes * tokens * shard + 8 * tokens + 4 * tokens,
        wire_bytes=results,
        reference_wire_bytes=remote * tokens * shard * element_bytes + results,
        note="The reference exchanges whole logits; a few candidates per token and rank are enough.",
    )
