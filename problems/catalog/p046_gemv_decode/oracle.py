"""The expected outputs, in float64."""

import torch
from torch import Tensor

from problems.catalog.p046_gemv_decode.inputs import make_inputs
from problems.inputs.values import Arguments, Call

_ROWS = 4096


def expected(call: Call) -> tuple[Tensor, ...]:
    """`logits` (num_tokens, vocab): the shards of all ranks side by side."""
    shards = [_logits(make_inputs(call.at_rank(rank))) for rank in range(call.world_size)]
    return (torch.cat(shards, dim=1),)


def _logits(arguments: Arguments) -> Tensor:
    """One rank's logits (num_tokens, local_vocab), in blocks of the weight's rows."""
    hidden = arguments["hidden_states"].double()
    blocks = [hidden @ rows.double().t() for rows in arguments["weight_shard"].split(_ROWS)]
    return torch.cat(blocks, dim=1) + arguments["bias_shard"].double()
