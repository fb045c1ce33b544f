"""Programs that must pass and programs that must fail."""

import torch
from torch import Tensor

from problems.families.rank_parts import all_gathered


def in_float32(hidden_states: Tensor, weight_shard: Tensor, bias_shard: Tensor) -> Tensor:
    """Float32 up to the logits, rounded before they travel."""
    own = hidden_states.float() @ weight_shard.float().t() + bias_shard.float()
    return torch.cat(all_gathered(own.to(hidden_states.dtype)), dim=1)


def rounded_twice(hidden_states: Tensor, weight_shard: Tensor, bias_shard: Tensor) -> Tensor:
    """Rounds the product, then adds the bias and rounds again."""
    return torch.cat(all_gathered(hidden_states @ weight_shard.t() + bias_shard), dim=1)


def hidden_in_blocks(hidden_states: Tensor, weight_shard: Tensor, bias_shard: Tensor) -> Tensor:
    """Splits the contraction into four parts added in float32, the last first, and sends float32."""
    pairs = list(zip(hidden_states.float().chunk(4, dim=1), weight_shard.float().chunk(4, dim=1), strict=True))
    own = bias_shard.float() + sum(left @ right.t() for left, right in reversed(pairs))
    return torch.cat(all_gathered(own), dim=1).to(hidden_states.dtype)


def without_bias(hidden_states: Tensor, weight_shard: Tensor, bias_shard: Tensor) -> Tensor:
    """The bias left out."""
    del bias_shard
    return torch.cat(all_gathered(hidden_states @ weight_shard.t()), dim=1)


def bias_of_own_shard(hidden_states: Tensor, weight_shard: Tensor, bias_shard: Tensor) -> Tensor:
    """Adds the own bias to every shard after gathering."""
    shards = all_gathered(hidden_states @ weight_shard.t())
    return torch.cat([shard + bias_shard for shard in shards], dim=1)


def weight_in_float8(hidden_states: Tensor, weight_shard: Tensor, bias_shard: Tensor) -> Tensor:
    """The weight rounded to 8 bits (e4m3, one scale per row), which halves what has to be read."""
    scale = weight_shard.float().abs().amax(1, keepdim=True) / 448
    weight = ((weight_shard / scale).to(torch.float8_e4m3fn).float() * scale).to(weight_shard.dtype)
    return rounded_twice(hidden_states, weight, bias_shard)


def shards_reversed(hidden_states: Tensor, weight_shard: Tensor, bias_shard: Tensor) -> Tensor:
    """The last rank's shard first."""
    return torch.cat(all_gathered(hidden_states @ weight_shard.t() + bias_shard)[::-1], dim=1)


def one_tile_of_tokens(hidden_states: Tensor, weight_shard: Tensor, bias_shard: Tensor) -> Tensor:
    """Computes a tile of 256 tokens; the logits of all others are zero."""
    logits = in_float32(hidden_states, weight_shard, bias_shard)
    logits[256:] = 0
    return logits


HONEST = {"float32": in_float32, "rounded_twice": rounded_twice, "hidden_in_blocks": hidden_in_blocks}
MUTANTS = {
    "without_bias": without_bias,
    "bias_of_own_shard": bias_of_own_shard,
    "weight_in_float8": weight_in_float8,
    "shards_reversed": shards_reversed,
}
NARROW = {"many_tokens": one_tile_of_tokens}
