"""Programs that must pass and programs that must fail."""

from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from problems.families.rank_parts import all_gathered


def gathered(
    images: Tensor,
    texts: Tensor,
    logit_scale: float,
    logit_bias: float = 0.0,
    group: None = None,
    *,
    matches: bool = True,
    ranks: int | None = None,
    has_bias: bool = True,
    scales: bool = True,
) -> Tensor:
    """Gathers all texts and scores once, in float32; the last arguments make it wrong."""
    every = torch.cat(all_gathered(texts)[:ranks]).float()
    logits = images.float() @ every.T * (logit_scale if scales else 1.0) + logit_bias * has_bias
    total = nn.functional.softplus(logits).sum()
    if matches:
        first = dist.get_rank() * len(images)
        total -= logits[:, first : first + len(images)].diagonal().sum()
    return (total / len(images)).to(images.dtype)


def rounded_each_step(
    images: Tensor, texts: Tensor, logit_scale: float, logit_bias: float = 0.0, group: None = None
) -> Tensor:
    """Every step in the run's dtype, blocks added one by one."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    every = all_gathered(texts)
    signs = 2 * torch.eye(len(images), dtype=images.dtype) - 1
    loss = torch.zeros((), dtype=images.dtype)
    for distance in range(world_size):
        logits = (logit_scale * images) @ every[(rank + distance) % world_size].T + logit_bias
        sign = signs if distance == 0 else -1
        loss = loss - nn.functional.logsigmoid(sign * logits).sum() / len(images)
    return loss


def own_texts_only(
    images: Tensor, texts: Tensor, logit_scale: float, logit_bias: float = 0.0, group: None = None
) -> Tensor:
    """No communication: the own block, as if it stood for all."""
    logits = (logit_scale * images.float()) @ texts.float().T + logit_bias
    others = nn.functional.softplus(logits).sum() * dist.get_world_size()
    return ((others - logits.diagonal().sum()) / len(images)).to(images.dtype)


def averaged_over_ranks(*arguments: Any) -> Tensor:
    """The mean of all ranks' losses."""
    loss = gathered(*arguments).float()
    dist.all_reduce(loss)
    return (loss / dist.get_world_size()).to(arguments[0].dtype)


def softmax_loss(
    images: Tensor, texts: Tensor, logit_scale: float, logit_bias: float = 0.0, group: None = None
) -> Tensor:
    """Cross entropy over all texts, as in CLIP."""
    logits = (logit_scale * images.float()) @ torch.cat(all_gathered(texts)).float().T
    wanted = torch.arange(len(images)) + dist.get_rank() * len(images)
    return nn.functional.cross_entropy(logits, wanted).to(images.dtype)


def nothing_where_texts_are_equal(
    images: Tensor, texts: Tensor, logit_scale: float, logit_bias: float = 0.0, group: None = None
) -> Tensor:
    """Divides by how far the texts are apart, which is nothing if all are the same."""
    every = torch.cat(all_gathered(texts)).float()
    apart = (every - every[:1]).abs().max()
    return gathered(images, texts, logit_scale, logit_bias, group) * (apart / apart).to(images.dtype)


def exponentials_as_they_are(
    images: Tensor, texts: Tensor, logit_scale: float, logit_bias: float = 0.0, group: None = None
) -> Tensor:
    """The logarithm of one and an exponential, which overflows where a logit exceeds 88."""
    logits = images.float() @ torch.cat(all_gathered(texts)).float().T * logit_scale + logit_bias
    first = dist.get_rank() * len(images)
    total = logits.exp().log1p().sum() - logits[:, first : first + len(images)].diagonal().sum()
    return (total / len(images)).to(images.dtype)


def matches_by_exponentials(
    images: Tensor, texts: Tensor, logit_scale: float, logit_bias: float = 0.0, group: None = None
) -> Tensor:
    """The logarithm of the sigmoid of matches, which is no number where their logits are far below zero."""
    every = torch.cat(all_gathered(texts)).float()
    logits = images.float() @ every.T * logit_scale + logit_bias
    first = dist.get_rank() * len(images)
    matches = logits[:, first : first + len(images)].diagonal()
    total = nn.functional.softplus(logits).sum() - nn.functional.softplus(matches).sum()
    return ((total - matches.sigmoid().log().sum()) / len(images)).to(images.dtype)


def logarithms_of_one_and_more(
    images: Tensor, texts: Tensor, logit_scale: float, logit_bias: float = 0.0, group: None = None
) -> Tensor:
    """The logarithm of one and an exponential, which is lost below 6e-8."""
    logits = images.float() @ torch.cat(all_gathered(texts)).float().T * logit_scale + logit_bias
    first = dist.get_rank() * len(images)
    total = ((-logits.abs()).exp() + 1).log().sum() + logits.clamp(min=0).sum()
    total -= logits[:, first : first + len(images)].diagonal().sum()
    return (total / len(images)).to(images.dtype)


def exponentials_below_a_tenth(
    images: Tensor, texts: Tensor, logit_scale: float, logit_bias: float = 0.0, group: None = None
) -> Tensor:
    """An exponential of up to a tenth stands for the logarithm of one and it."""
    logits = images.float() @ torch.cat(all_gathered(texts)).float().T * logit_scale + logit_bias
    first = dist.get_rank() * len(images)
    raised = logits.exp()
    total = torch.where(raised < 0.1, raised, nn.functional.softplus(logits)).sum()
    total -= logits[:, first : first + len(images)].diagonal().sum()
    return (total / len(images)).to(images.dtype)


def pairs_two_by_two(
    images: Tensor, texts: Tensor, logit_scale: float, logit_bias: float = 0.0, group: None = None
) -> Tensor:
    """Scores images two by two, and leaves out the last one of an odd number."""
    even = len(images) // 2 * 2
    logits = images[:even].float() @ torch.cat(all_gathered(texts)).float().T * logit_scale + logit_bias
    first = dist.get_rank() * len(images)
    total = nn.functional.softplus(logits).sum() - logits[:, first : first + even].diagonal().sum()
    return (total / len(images)).to(images.dtype)


def first_64_features(images: Tensor, texts: Tensor, *rest: Any) -> Tensor:
    """Sees no more than 64 elements of a feature."""
    return gathered(images[:, :64], texts[:, :64].contiguous(), *rest)


HONEST = {"gathered": gathered, "rounded_each_step": rounded_each_step}
MUTANTS = {
    "own_texts_only": own_texts_only,
    "matches_forgotten": partial(gathered, matches=False),
    "last_rank_left_out": partial(gathered, ranks=-1, matches=False),
    "without_bias": partial(gathered, has_bias=False),
    "without_scale": partial(gathered, scales=False),
    "averaged_over_ranks": averaged_over_ranks,
    "softmax_loss": softmax_loss,
}
NARROW = {
    "opposite_features": matches_by_exponentials,
    "middling_terms": exponentials_below_a_tenth,
    "small_terms": logarithms_of_one_and_more,
    "few_pairs": pairs_two_by_two,
    "other_extents": first_64_features,
    "large_logits": exponentials_as_they_are,
    "same_features": nothing_where_texts_are_equal,
}
