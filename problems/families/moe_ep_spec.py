"""What the three expert-parallel layers without adapters say alike: numbers of tokens, and extents. No torch."""

from dataclasses import replace

from problems.families import moe_layer_spec as moe
from problems.spec.ranges import Extent, Whole
from problems.spec.regimes import long_extent

MANY_TOKENS = long_extent("many_tokens", M=Extent(low=520, high=780))
"""So many that ranks often send more than 256 to one expert, which is as far as bfloat16 counts."""

OTHER_CHOICES = replace(
    moe.MORE_CHOICES,
    name="other_choices",
    words="top_k is 2 to 4, or fewer if experts are, out of twice as many experts as in timed calls of this size",
    settings={"times_experts": 2, "top_k": Whole(low=2, high=4)},
)
SEVERAL_CHOICES = replace(
    OTHER_CHOICES,
    name="several_choices",
    words="top_k is 5 to 7, out of twice as many experts as in timed calls of this size",
    settings={"times_experts": 2, "top_k": Whole(low=5, high=7)},
)
"""Only for world sizes where twice as many experts are at least eight."""

INVARIANTS = (
    *moe.INVARIANTS,
    "The number of tokens may be prime, and one expert may take all tokens of all ranks.",
    "The hidden size N is a multiple of 256, and the inner size a multiple of 64.",
    "`gate_bias` may be None. Each of the three modules has a bias or none, alike on all ranks.",
    "`top_k` is from 1 to 7, or all of `num_experts`.",
)
