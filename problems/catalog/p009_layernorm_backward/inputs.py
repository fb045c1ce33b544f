"""Arguments of one rank for one call."""

import torch

from problems.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`X_hat` (M, N), normalised rows, and `dY` (M, N), gradients whose columns differ widely in scale.

    The columns' scales are shared, as the outlier channels of a model are: the sums keep them, and a vector of sums
    has elements that one 8-bit scale cannot hold.
    """
    rows = call.normal("X_hat", ("M", "N"), dtype=torch.float32)
    rows.sub_(rows.mean(dim=1, keepdim=True)).div_(rows.std(dim=1, correction=0, keepdim=True))
    scale = call.uniform("scale", (1, 1), low=-1, high=1, dtype=torch.float32).exp2_()
    gradients = call.normal("dY", ("M", "N"), dtype=torch.float32)
    gradients.mul_(call.scales("columns", (1, "N"), spread=0.9, shared=True) * scale)
    return {"X_hat": rows.to(call.dtype), "dY": gradients.to(call.dtype)}
