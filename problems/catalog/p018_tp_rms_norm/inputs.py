"""Arguments of one rank for one call."""

import torch

from problems.inputs.regime_values import at_end, in_regime, magnitude
from problems.inputs.values import Arguments, Call

EPSILON = 1e-5


def make_inputs(call: Call) -> Arguments:
    """`local_hidden_states` (M, N), `local_weight` (N,), `variance_epsilon`.

    Rows differ in scale from far below sqrt(EPSILON) to far above, so that both the statistics and the epsilon are
    seen. Each rank scales every row by a factor of its own, so that its local statistics are not the global ones.
    Where a regime has a smaller epsilon, rows are as much smaller as its root is.
    """
    epsilon = call.setting("epsilon", EPSILON)
    row = call.uniform("row_scale", ("M", 1), low=-11, high=3, dtype=torch.float32, shared=True)
    own = call.uniform("own_scale", ("M", 1), low=-2, high=2, dtype=torch.float32)
    hidden = call.normal("local_hidden_states", ("M", "N"), dtype=torch.float32)
    hidden = hidden.mul_((row + own).exp2_()).mul_(min(1.0, (epsilon / EPSILON) ** 0.5)).to(call.dtype)
    hidden = at_end(call, in_regime(call, "local_hidden_states", hidden))
    weight = call.normal("local_weight", ("N",)).mul_(magnitude(call))
    if call.setting("values", "") == "one_rank":
        # Results without values are zero anyway: the weights may be, too, and the rank still has to take part.
        weight = in_regime(call, "local_weight", weight)
    if call.setting("edges", "usual") == "plain":
        hidden[[0, -1]] = 0.0
        hidden[:, :8] = 0.0
        weight[[0, -1]] = 1.0
    return {
        "local_hidden_states": hidden,
        "local_weight": weight,
        "variance_epsilon": epsilon,
    }
