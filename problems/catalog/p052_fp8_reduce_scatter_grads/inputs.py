"""Arguments of one rank for one call."""

from problems.families.delayed_scaling import draw, histories
from problems.inputs.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`flat_grads` (W*P) and an `amax_history` (16) to match."""
    gradients = draw(call, "flat_grads", ("WP",))
    return {"flat_grads": gradients, "amax_history": histories(call, gradients)}
