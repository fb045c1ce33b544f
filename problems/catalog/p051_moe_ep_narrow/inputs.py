"""Arguments of one rank for one call."""

from problems.families import moe_layer
from problems.inputs.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """Tokens, router, the rank's own SwiGLU network, two numbers, and no group."""
    return moe_layer.draw(call)
