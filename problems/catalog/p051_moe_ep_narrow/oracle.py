"""The expected outputs, in float64, without an exchange."""

from torch import Tensor

from problems.families import moe_layer
from problems.inputs.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`out` (M, N), the experts owned by the blocks of ranks that share them."""
    return moe_layer.expected(call, owners=min(moe_layer.sized(call).dims["num_experts"], call.world_size))
