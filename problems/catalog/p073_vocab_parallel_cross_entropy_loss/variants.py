"""Programs that must pass and programs that must fail."""

import torch
import torch.distributed as dist
from torch import Tensor

from problems.families.rank_parts import all_gathered


def _picked(logits: Tensor, target: Tensor, rank: int) -> Tensor:
    """The target's logit where this rank holds it, 0 elsewhere."""
    columns = logits.shape[-1]
    column = target - rank * columns
    is_elsewhere = (column < 0) | (column >= columns)
    picked = logits.gather(-1, column.masked_fill(is_elsewhere, 0).unsqueeze(-1)).squeeze(-1)
    return picked.masked_fill(is_elsewhere, 0)


def rounded_everywhere(vocab_parallel_logits: Tensor, target: Tensor, group: None) -> Tensor:
    """Every step in the run's dtype, the shift written into the logits."""
    del group
    logits = vocab_parallel_logits
    maximum = logits.amax(dim=-1)
    dist.all_reduce(maximum, op=dist.ReduceOp.MAX)
    logits -= maximum.unsqueeze(-1)
    wanted = _picked(logits, target, dist.get_rank())
    dist.all_reduce(wanted)
    total = logits.exp().sum(dim=-1)
    dist.all_reduce(total)
    return total.log() - wanted


def merged_once(vocab_parallel_logits: Tensor, target: Tensor, group: None) -> Tensor:
    """Gathers a log-sum-exp and a target logit per rank and merges them: one exchange."""
    del group
    logits = vocab_parallel_logits.float()
    own = torch.stack([logits.logsumexp(dim=-1), _picked(logits, target, dist.get_rank())])
    parts = all_gathered(own)
    gathered = torch.stack(parts)
    return (gathered[:, 0].logsumexp(dim=0) - gathered[:, 1].sum(dim=0)).to(vocab_parallel_logits.dtype)


def without_maximum(vocab_parallel_logits: Tensor, target: Tensor, group: None) -> Tensor:
    """The exponentials as they are."""
    del group
    logits = vocab_parallel_logits.float()
    parts = torch.stack([logits.exp().sum(dim=-1), _picked(logits, target, dist.get_rank())])
    dist.all_reduce(parts)
    return (parts[0].log() - parts[1]).to(vocab_parallel_logits.dtype)


def local_normaliser(vocab_parallel_logits: Tensor, target: Tensor, group: None) -> Tensor:
    """Normalised over the own shard of the vocabulary only."""
    del group
    logits = vocab_parallel_logits.float()
    wanted = _picked(logits, target, dist.get_rank())
    dist.all_reduce(wanted)
    return (logits.logsumexp(dim=-1) - wanted).to(vocab_parallel_logits.dtype)


def without_target(vocab_parallel_logits: Tensor, target: Tensor, group: None) -> Tensor:
    """The expected target logit in place of the real one."""
    del group
    logits = vocab_parallel_logits.float()
    loss = merged_once(vocab_parallel_logits, target, None).float()
    wanted = _picked(logits, target, dist.get_rank())
    dist.all_reduce(wanted)
    mean = logits.mean(dim=-1)
    dist.all_reduce(mean)
    return (loss + wanted - mean / dist.get_world_size()).to(vocab_parallel_logits.dtype)


def idle_ranks_leave(vocab_parallel_logits: Tensor, target: Tensor, group: None) -> Tensor:
    """Returns zeros on a rank that has no target."""
    columns = vocab_parallel_logits.shape[-1]
    loss = merged_once(vocab_parallel_logits, target, group)
    return loss if (target // columns == dist.get_rank()).any() else torch.zeros_like(loss)


def picked_by_a_product(vocab_parallel_logits: Tensor, target: Tensor, group: None) -> Tensor:
    """Multiplies by zeros and ones to pick the targets' logits."""
    del group
    logits = vocab_parallel_logits.float()
    words = torch.arange(logits.shape[-1]) + dist.get_rank() * logits.shape[-1]
    picked = (logits * (target.unsqueeze(-1) == words)).sum(dim=-1)
    gathered = torch.stack(all_gathered(torch.stack([logits.logsumexp(dim=-1), picked])))
    return (gathered[:, 0].logsumexp(dim=0) - gathered[:, 1].sum(dim=0)).to(vocab_parallel_logits.dtype)


def in_two_steps(vocab_parallel_logits: Tensor, target: Tensor, group: None) -> Tensor:
    """Adds exponentials up in two steps of the rank's columns: no number where those of the first are all zero."""
    del group
    logits = vocab_parallel_logits.float()
    first, second = logits.chunk(2, dim=-1)
    largest = first.amax(dim=-1, keepdim=True)
    mass = (first - largest).exp().sum(dim=-1)
    maximum = torch.maximum(largest, second.amax(dim=-1, keepdim=True))
    mass = mass * (largest - maximum).exp().squeeze(-1) + (second - maximum).exp().sum(dim=-1)
    wanted = _picked(logits, target, dist.get_rank())
    dist.all_reduce(wanted)
    everywhere = torch.stack(all_gathered(maximum.squeeze(-1) + mass.log())).logsumexp(dim=0)
    return (everywhere - wanted).to(vocab_parallel_logits.dtype)


def shares_of_tokens(vocab_parallel_logits: Tensor, target: Tensor, group: None) -> Tensor:
    """Each rank hands in its share of the tokens, rounded down, and nobody the rest."""
    loss = merged_once(vocab_parallel_logits, target, group)
    shared = loss.numel() // dist.get_world_size() * dist.get_world_size()
    loss.view(-1)[shared:] = 0
    return loss


def near_the_largest(vocab_parallel_logits: Tensor, target: Tensor, group: None) -> Tensor:
    """Leaves out the words whose logits are 10 or more below the rank's largest."""
    lowered = vocab_parallel_logits.masked_fill(
        vocab_parallel_logits < vocab_parallel_logits.amax(dim=-1, keepdim=True) - 10, -torch.inf
    )
    wanted = _picked(vocab_parallel_logits.float(), target, dist.get_rank())
    dist.all_reduce(wanted)
    everywhere = torch.stack(all_gathered(lowered.float().logsumexp(dim=-1))).logsumexp(dim=0)
    return (everywhere - wanted).to(vocab_parallel_logits.dtype)


HONEST = {"rounded_everywhere": rounded_everywhere, "merged_once": merged_once}
MUTANTS = {
    "without_maximum": without_maximum,
    "local_normaliser": local_normaliser,
    "without_target": without_target,
}
NARROW = {
    "targets_on_one_rank": idle_ranks_leave,
    "masked_words": picked_by_a_product,
    "half_masked": in_two_steps,
    "certain_targets": near_the_largest,
    "odd_tokens": shares_of_tokens,
}
