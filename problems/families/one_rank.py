"""Values of one rank that are far larger than those of all others."""

from torch import Tensor

from problems.inputs.regime_values import in_regime, owner
from problems.inputs.values import Call

_LARGER = 2.0**20


def in_regime_of_ranks(call: Call, name: str, tensor: Tensor) -> Tensor:
    """`in_regime`; where all ranks but one would have zeros, one that is not the first may have larger ones instead."""
    if call.setting("others", "zero") == "zero":
        return in_regime(call, name, tensor)
    return tensor * _LARGER if call.rank == max(1, owner(call)) else tensor
