"""The expected outputs, in float64, without an exchange."""

from torch import Tensor

from problems.families import moe_layer
from problems.inputs.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`out` (M, N), the experts owned by all ranks."""
    return moe_layer.expected(call, owners=call.world_size)
