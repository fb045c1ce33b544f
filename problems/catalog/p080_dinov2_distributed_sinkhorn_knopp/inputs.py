"""Arguments of one rank for one call.

Logits are far from uniform at the temperature used, prototypes differ in popularity over all ranks and samples in
size, so that every round of the normalisation changes the assignment.
"""

import torch
from torch import Tensor

from problems.inputs.regime_values import in_regime, owner
from problems.inputs.values import Arguments, Call

TEMPERATURE = 0.07
FARTHEST = 36.0
"""The size of logits divided by the temperature where one prototype is far from all samples, but for 4 at the most."""
LOGIT_STD, POPULARITY_STD, SAMPLE_STD = 0.15, 0.08, 0.08


def make_inputs(call: Call) -> Arguments:
    """Logits (b, Kp) in float32, the temperature, a count, the number of rounds, and no group."""
    return {
        "teacher_output": logits(call),
        "teacher_temp": temperature(call),
        "n_masked_patches_tensor": _count(call),
        "n_iterations": rounds(call),
        "group": None,
    }


def _count(call: Call) -> Tensor:
    """Half of the rank's rows or more; in one regime none on one rank."""
    rows = call.dims["b"]
    count = call.integers("count", (1,), low=max(1, rows // 2), high=rows + 1)
    is_none = call.setting("count", None) == "none_on_one" and call.rank == owner(call)
    return torch.zeros_like(count) if is_none else count


def logits(call: Call) -> Tensor:
    """The rank's `teacher_output` (b, Kp) in float32."""
    drawn = call.normal("teacher_output", ("b", "Kp"), std=LOGIT_STD, dtype=torch.float32)
    drawn += call.normal("popularity", (1, "Kp"), std=POPULARITY_STD, dtype=torch.float32, shared=True)
    drawn += call.normal("sample", ("b", 1), std=SAMPLE_STD, dtype=torch.float32)
    if (part := call.setting("part", None)) is not None:
        drawn *= part
    if call.setting("prototypes", None) == "one_far":
        drawn = _one_far(call, drawn)
    return in_regime(call, "teacher_output", drawn)


def _one_far(call: Call, drawn: Tensor) -> Tensor:
    """Logits (b, Kp) as nearly alike as they may be for all prototypes but one, which is as far as can be from all.

    They are small enough in number that all exponentials divided by their sum are normal float32 numbers.
    """
    far = call.integers("far prototype", (), low=0, high=call.dims["Kp"], shared=True)
    ends = torch.full((call.dims["Kp"],), FARTHEST, device=call.device)
    ends[far] = -FARTHEST
    return (drawn / (4 * TEMPERATURE)).clamp(-FARTHEST / 9, FARTHEST / 9).add_(ends).mul_(temperature(call))


def temperature(call: Call) -> float:
    """By what logits are divided: 0.07 in timed calls."""
    return float(call.setting("temperature", TEMPERATURE))


def rounds(call: Call) -> int:
    """How often prototypes and samples are normalised."""
    return int(call.setting("rounds", call.dims["rounds"]))
