"""What each rank owes, in float64 and in blocks of tokens; the chunk size changes nothing."""

import torch
from torch import Tensor

from problems.catalog.p084_vocab_parallel_log_prob_topk_chunked_backward.inputs import make_inputs
from problems.sampling_filters import without_removed
from problems.values import Arguments, Call

_BLOCK_ELEMENTS = 1 << 25


def expected(call: Call) -> tuple[Tensor, ...]:
    """`grad_logits` (B, S, Vl): the rank's columns of the gradient; filtered columns get 0."""
    arguments = [make_inputs(call.at_rank(rank)) for rank in range(call.world_size)]
    shards = [one["vocab_parallel_logits"].flatten(0, 1) for one in arguments]
    step = max(1, _BLOCK_ELEMENTS // call.dims["V"])
    out = torch.empty(call.shape(("nt", "Vl")), dtype=torch.float64, device=call.device)
    own = slice(call.rank * call.dims["Vl"], (call.rank + 1) * call.dims["Vl"])
    for start in range(0, len(out), step):
        block = slice(start, start + step)
        out[block] = _gradient(torch.cat([shard[block] for shard in shards], dim=1), block, arguments[0])[:, own]
    return (out.view(call.shape(("B", "S", "Vl"))),)


def _gradient(logits: Tensor, block: slice, shared: Arguments) -> Tensor:
    """Gradient (n, V) with respect to whole rows of logits (n, V) of the tokens in `block`."""
    kept = without_removed(logits, shared["top_k"], shared["top_p"])
    gradient = -kept.softmax(dim=1)
    target = shared["target"].flatten()[block, None]
    gradient.scatter_add_(1, target, torch.ones_like(target, dtype=gradient.dtype))
    gradient *= shared["grad_output"].flatten()[block, None].double()
    return gradient.masked_fill_(kept.isinf(), 0.0)
