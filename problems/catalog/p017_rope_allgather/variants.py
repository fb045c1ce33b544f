"""Programs that must pass and programs that must fail."""

import torch
import torch.distributed as dist
from torch import Tensor

from problems.families.rank_parts import all_gathered

Pair = tuple[Tensor, Tensor]


def _rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """One shard, rotated in float32 and rounded once."""
    wide, c, s = x.float(), cos.float().unsqueeze(2), sin.float().unsqueeze(2)
    first, second = wide.chunk(2, dim=-1)
    c1, c2 = c.chunk(2, dim=-1)
    s1, s2 = s.chunk(2, dim=-1)
    return torch.cat((first * c1 - second * s1, second * c2 + first * s2), dim=-1).to(x.dtype)


def in_float32(q_local: Tensor, k_local: Tensor, cos_local: Tensor, sin_local: Tensor) -> Pair:
    """Float32 inside, one rounding, one collective for each of the two."""
    q, k = (all_gathered(_rotated(x, cos_local, sin_local)) for x in (q_local, k_local))
    return torch.cat(q, dim=1), torch.cat(k, dim=1)


def gathered_before_rotating(q_local: Tensor, k_local: Tensor, cos_local: Tensor, sin_local: Tensor) -> Pair:
    """Gathers all four arguments and rotates the whole on every rank."""
    q, k, cos, sin = (torch.cat(all_gathered(x), dim=1) for x in (q_local, k_local, cos_local, sin_local))
    return _rotated(q, cos, sin), _rotated(k, cos, sin)


def broadcasts(q_local: Tensor, k_local: Tensor, cos_local: Tensor, sin_local: Tensor) -> Pair:
    """One broadcast per rank to its index."""
    own = torch.stack([_rotated(x, cos_local, sin_local) for x in (q_local, k_local)])
    shards = [own.clone() for _ in range(dist.get_world_size())]
    for rank, shard in enumerate(shards):
        dist.broadcast(shard, rank)
    q, k = torch.cat(shards, dim=2).unbind()
    return q, k


def rotated_the_other_way(q_local: Tensor, k_local: Tensor, cos_local: Tensor, sin_local: Tensor) -> Pair:
    """The sines' sign turned."""
    return in_float32(q_local, k_local, cos_local, -sin_local)


def neighbours_paired(q_local: Tensor, k_local: Tensor, cos_local: Tensor, sin_local: Tensor) -> Pair:
    """Rotates elements 2j and 2j + 1 together, the other convention of rotary embeddings."""
    halves = (q_local, k_local, cos_local, sin_local)
    q, k = in_float32(*(torch.cat((x[..., ::2], x[..., 1::2]), dim=-1) for x in halves))
    q, k = (torch.stack(x.chunk(2, dim=-1), dim=-1).flatten(-2) for x in (q, k))
    return q, k


def first_half_of_angles(q_local: Tensor, k_local: Tensor, cos_local: Tensor, sin_local: Tensor) -> Pair:
    """Takes both halves of cosines and sines for equal."""
    cos, sin = (torch.cat([x.chunk(2, dim=-1)[0]] * 2, dim=-1) for x in (cos_local, sin_local))
    return in_float32(q_local, k_local, cos, sin)


def keys_not_rotated(q_local: Tensor, k_local: Tensor, cos_local: Tensor, sin_local: Tensor) -> Pair:
    """Only the queries turn."""
    q, _ = in_float32(q_local, k_local, cos_local, sin_local)
    return q, torch.cat(all_gathered(k_local), dim=1)


def own_angles_everywhere(q_local: Tensor, k_local: Tensor, cos_local: Tensor, sin_local: Tensor) -> Pair:
    """Rotates every rank's shard by the own rank's angles."""
    shards = (all_gathered(q_local), all_gathered(k_local))
    q, k = (torch.cat([_rotated(x, cos_local, sin_local) for x in each], dim=1) for each in shards)
    return q, k


HONEST = {"float32": in_float32, "gathered_before_rotating": gathered_before_rotating, "broadcasts": broadcasts}
MUTANTS = {
    "rotated_the_other_way": rotated_the_other_way,
    "neighbours_paired": neighbours_paired,
    "first_half_of_angles": first_half_of_angles,
    "keys_not_rotated": keys_not_rotated,
    "own_angles_everywhere": own_angles_everywhere,
}
