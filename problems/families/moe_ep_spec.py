"""What the three expert-parallel layers without adapters say alike: numbers of tokens, and extents. No torch."""

from problems.families import moe_layer_spec as moe
from problems.spec.ranges import Extent
from problems.spec.regimes import long_extent

MANY_TOKENS = long_extent("many_tokens", M=Extent(low=520, high=780))
"""So many that ranks often send more than 256 to one expert, which is as far as bfloat16 counts."""

INVARIANTS = (
    *moe.INVARIANTS,
    "Any number of tokens is legal, prime numbers too, and one expert may take all tokens of all ranks.",
    "The hidden size N is a multiple of 256, and the inner size a multiple of 64.",
    "`gate_bias` may be None. Each of the three modules has a bias or none, alike on all ranks.",
    "`top_k` lies between 1 and `num_experts`.",
)
