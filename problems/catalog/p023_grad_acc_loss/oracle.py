"""The expected outputs, in float64."""

from torch import Tensor

from problems.catalog.p023_grad_acc_loss.inputs import make_inputs
from problems.inputs.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`normalized_loss`, `loss_sum` and `grad_loss`, three scalars."""
    every = [make_inputs(call.at_rank(rank)) for rank in range(call.world_size)]
    sums = [a["loss"].double().nan_to_num(0, 0, 0) * a["local_valid_tokens"] for a in every]
    own = every[call.rank]
    tokens, total = own["local_valid_tokens"], own["global_valid_tokens"]
    loss_sum = sum(sums, start=0 * own["loss"].double().nan_to_num(0, 0, 0))
    second = 0 if own["grad_loss_sum"] is None else own["grad_loss_sum"].double()
    grad_loss = (own["grad_normalized_loss"].double() / total + second) * tokens
    return loss_sum / total, loss_sum, grad_loss
