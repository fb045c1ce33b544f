"""Arguments of one rank for one call."""

import torch
from torch import Tensor

from problems.inputs.regime_values import LARGEST, SMALLEST, in_regime
from problems.inputs.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """Three gradients of low-rank weights, long-tailed, each with a scale of the rank's own; no group."""
    larger, smaller = (LARGEST, SMALLEST) if call.setting("sizes", None) == "apart" else (1.0, 1.0)
    return {
        "grad_fc1_1_lora_A": _gradient(call, "grad_fc1_1_lora_A", ("r", "N")).mul_(larger),
        "grad_fc1_2_lora_A": _gradient(call, "grad_fc1_2_lora_A", ("r", "N")),
        "grad_fc2_lora_B": _gradient(call, "grad_fc2_lora_B", ("N", "r")).mul_(smaller),
        "group": None,
    }


def _gradient(call: Call, name: str, symbols: tuple[str, str]) -> Tensor:
    scale = call.uniform(f"{name} scale", (1, 1), low=-1, high=1, dtype=torch.float32).exp2_()
    gradient = call.long_tailed(name, symbols, dtype=torch.float32).mul_(scale).to(call.dtype)
    return in_regime(call, name, gradient) * _is_kept(call, name)


def _is_kept(call: Call, name: str) -> bool:
    """Whether the gradient called `name` has values on the rank: in a regime one of the three has none."""
    zero = call.setting("zero", "")
    is_here = not zero.endswith("s") or call.rank % 2 == 1
    return not (zero and is_here and name.startswith(f"grad_{zero.removesuffix('s')}_lora"))
