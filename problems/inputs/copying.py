"""Values and weights with which a layer only copies, so that results have no rounding error.

In such calls an honest program returns what it was given, and whatever is sent in fewer bits shows.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from problems.inputs.values import Call


def copies(call: Call) -> bool:
    """Whether the layer only copies in this call."""
    return bool(call.setting("layer", "") == "copies")


def odd_values(call: Call, name: str, symbols: Sequence[str | int], *, shared: bool = False) -> Tensor:
    """Values between 1 and 2 of either sign, each of which needs the 8 significant bits of a bfloat16."""
    whole = 2 * call.integers(name, symbols, low=64, high=128, shared=shared) + 1
    sign = 2 * call.integers(f"{name}: sign", symbols, low=0, high=2, shared=shared) - 1
    return (sign * whole).to(call.dtype) / 128


def picking(call: Call, name: str, symbols: Sequence[str | int], *, shared: bool = False) -> Tensor:
    """A matrix whose rows hold a single 1 in a drawn column: with it, every output is a copy of an input."""
    rows, columns = call.shape(symbols)
    chosen = call.integers(name, (rows, 1), low=0, high=columns, shared=shared)
    return torch.zeros(rows, columns, dtype=call.dtype, device=call.device).scatter_(1, chosen, 1)
