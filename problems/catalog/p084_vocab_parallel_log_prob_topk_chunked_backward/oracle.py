"""The expected outputs, in float64, from the largest logits of every shard; the chunk size changes nothing."""

import torch
from torch import Tensor

from problems.catalog.p084_vocab_parallel_log_prob_topk_chunked_backward.inputs import incoming_gradients
from problems.families.sampling_filters import Survivors, Tokens, row_blocks, shard, survivors, tokens
from problems.inputs.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`grad_logits` (B, S, Vl): the rank's columns of the gradient; filtered columns get 0."""
    drawn = tokens(call)
    own = shard(call, drawn)
    shards = (own if rank == call.rank else shard(call.at_rank(rank), drawn) for rank in range(call.world_size))
    return (_gradient(call, own, drawn, survivors(shards, drawn)).view(call.shape(("B", "S", "Vl"))),)


def _gradient(call: Call, own: Tensor, drawn: Tokens, left: Survivors) -> Tensor:
    """(one-hot - softmax) * incoming gradient for the rank's logits `own` (nt, Vl), 0 where they do not survive."""
    incoming = incoming_gradients(call).flatten().double()
    out = torch.empty(own.shape, dtype=torch.float64, device=call.device)
    for block in row_blocks(own):
        torch.sub(own[block], left.log_mass[block, None], out=out[block])
        out[block].exp_().mul_(-incoming[block, None]).masked_fill_(own[block] < left.least[block, None], 0.0)
    column = drawn.target - call.rank * call.dims["Vl"]
    is_here = (column >= 0) & (column < call.dims["Vl"])
    share = incoming.where(is_here & (left.target >= left.least), 0.0)
    return out.scatter_add_(1, column.clamp(0, call.dims["Vl"] - 1)[:, None], share[:, None])
