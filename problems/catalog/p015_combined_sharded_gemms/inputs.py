"""Arguments of one rank for one call."""

import torch

from problems.inputs.copying import copies, odd_values, picking
from problems.inputs.regime_values import LARGEST, SMALLEST, in_regime, unless_zero
from problems.inputs.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """The rank's arguments; in a regime some rows, the same on all ranks, are zero."""
    arguments = _drawn(call)
    if call.setting("rows", "usual") == "some zero":
        arguments["x_local"][
            call.uniform("regime's zero rows", ("M_rows",), dtype=torch.float32, shared=True) < 1 / 4
        ] = 0
    return arguments


def _drawn(call: Call) -> Arguments:
    """`x_local` (M_rows, H_local), long-tailed, and whole weights `W1` (H, F) and `W2` (F, H), all the rank's own.

    The weights keep the size of what passes through: the first layer's results are about 1, where SiLU bends.
    """
    if copies(call):
        # From 64 on, SiLU hands on what it is given.
        return {
            "x_local": 64 * odd_values(call, "x_local", ("M_rows", "H_local")).abs(),
            "W1": picking(call, "W1", ("F", "H")).t().contiguous(),
            "W2": picking(call, "W2", ("H", "F")).t().contiguous(),
        }
    if (closed_by := call.setting("closed_by", None)) is not None:
        # One column for each unit of the first layer, so that a gate is no more rounded than the input.
        sixteenths = call.integers("x_local", ("M_rows", "H_local"), low=16 * closed_by, high=16 * (closed_by + 1))
        return {
            "x_local": in_regime(call, "x_local", -(sixteenths / 16).to(call.dtype)),
            "W1": unless_zero(call, picking(call, "W1", ("F", "H")).t().contiguous()),
            "W2": unless_zero(call, call.normal("W2", ("F", "H"), std=call.dims["F"] ** -0.5)),
        }
    first, second = (SMALLEST, LARGEST) if call.setting("weights", None) == "apart" else (1.0, 1.0)
    return {
        "x_local": in_regime(call, "x_local", call.long_tailed("x_local", ("M_rows", "H_local"))),
        "W1": unless_zero(call, call.normal("W1", ("H", "F"), std=call.dims["H"] ** -0.5).mul_(first)),
        "W2": unless_zero(call, call.normal("W2", ("F", "H"), std=call.dims["F"] ** -0.5).mul_(second)),
    }
