"""Programs that must pass and programs that must fail."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from problems.catalog.p025_importance_sampling_loss.reference import solution

Results = tuple[Tensor, None, Tensor, Tensor, Tensor]


def _finish(logits: Tensor, labels: Tensor, old: Tensor, advantages: Tensor, *, valid: Tensor) -> Results:
    """Everything after the logits, in the logits' dtype, each number gathered on its own."""
    dtype = old.dtype
    chosen = logits.gather(1, labels.clamp(0, logits.shape[1] - 1).unsqueeze(1)).squeeze(1).float()
    lp = torch.where(valid, chosen - logits.float().logsumexp(dim=1), 0.0).to(dtype)
    delta = torch.where(valid, (lp - old).clamp(-20, 20), 0)
    ratio = delta.exp()
    losses = torch.where(valid, -(ratio * advantages), 0)
    tokens = [ratio[valid], (ratio - delta - 1)[valid], -lp[valid]]
    sums = torch.stack([valid.sum().float(), losses.float().sum(), *(part.float().sum() for part in tokens)])
    none = ratio.new_tensor([-torch.inf])
    extremes = torch.stack([torch.cat([sign * ratio[valid], none]).max() for sign in (-1, 1)]).float()
    every = [torch.empty(7, device=old.device) for _ in range(dist.get_world_size())]
    dist.all_gather(every, torch.cat([sums, extremes]))
    table = torch.stack(every[::-1])
    count, loss, mean, k3, entropy = table[:, :5].sum(dim=0)
    lowest, highest = -table[:, 5].max(), table[:, 6].max()
    metrics = torch.stack([mean / count, lowest, highest, k3 / count, entropy / count])
    return loss / count, None, lp, losses, metrics


def rounded_per_token(
    hidden_states: Tensor, weight: Tensor, labels: Tensor, old_logprobs: Tensor, advantages: Tensor, ignore_index: int
) -> Results:
    """Logits and every quantity per token rounded to the run's dtype."""
    logits = hidden_states @ weight.t()
    return _finish(logits, labels, old_logprobs, advantages, valid=labels != ignore_index)


def wide_logits(
    hidden_states: Tensor, weight: Tensor, labels: Tensor, old_logprobs: Tensor, advantages: Tensor, ignore_index: int
) -> Results:
    """Logits in float32, in blocks of the vocabulary."""
    blocks = [hidden_states.float() @ part.float().t() for part in weight.chunk(4)]
    return _finish(torch.cat(blocks, dim=1), labels, old_logprobs, advantages, valid=labels != ignore_index)


def without_ratio(
    hidden_states: Tensor, weight: Tensor, labels: Tensor, old_logprobs: Tensor, advantages: Tensor, ignore_index: int
) -> Results:
    """No importance weighting: every ratio is 1 in the loss."""
    _, _, logprobs, _, metrics = solution(hidden_states, weight, labels, old_logprobs, advantages, ignore_index)
    valid = labels != ignore_index
    losses = torch.where(valid, -advantages, 0)
    both = torch.stack([losses.float().sum(), valid.sum().float()])
    dist.all_reduce(both)
    return both[0] / both[1], None, logprobs, losses, metrics


def ignored_tokens_counted(
    hidden_states: Tensor, weight: Tensor, labels: Tensor, old_logprobs: Tensor, advantages: Tensor, ignore_index: int
) -> Results:
    """Divides by all tokens, ignored ones included."""
    loss, _, logprobs, losses, metrics = solution(hidden_states, weight, labels, old_logprobs, advantages, ignore_index)
    both = torch.stack([(labels != ignore_index).sum(), torch.tensor(labels.numel(), device=labels.device)]).float()
    dist.all_reduce(both)
    share = both[0] / both[1]
    scaled = metrics * share
    scaled[1:3] = metrics[1:3]
    return loss * share, None, logprobs, losses, scaled


def mean_of_means(
    hidden_states: Tensor, weight: Tensor, labels: Tensor, old_logprobs: Tensor, advantages: Tensor, ignore_index: int
) -> Results:
    """Averages every rank's mean, whatever its number of tokens."""
    _, _, logprobs, losses, metrics = solution(hidden_states, weight, labels, old_logprobs, advantages, ignore_index)
    own = losses.float().sum() / (labels != ignore_index).sum()
    dist.all_reduce(own)
    return own / dist.get_world_size(), None, logprobs, losses, metrics


def extremes_not_reduced(
    hidden_states: Tensor, weight: Tensor, labels: Tensor, old_logprobs: Tensor, advantages: Tensor, ignore_index: int
) -> Results:
    """Extreme ratios of this rank's tokens alone."""
    loss, _, logprobs, losses, metrics = solution(hidden_states, weight, labels, old_logprobs, advantages, ignore_index)
    valid = labels != ignore_index
    ratio = (logprobs - old_logprobs)[valid].float().exp()
    return loss, None, logprobs, losses, torch.stack([metrics[0], ratio.min(), ratio.max(), *metrics[3:]])


def half_the_vocabulary(
    hidden_states: Tensor, weight: Tensor, labels: Tensor, old_logprobs: Tensor, advantages: Tensor, ignore_index: int
) -> Results:
    """Normalises over the first half of the vocabulary and the label."""
    logits = (hidden_states @ weight.t()).float()
    keep = torch.zeros_like(logits, dtype=torch.bool)
    keep[:, : weight.shape[0] // 2] = True
    keep.scatter_(1, labels.clamp(0, logits.shape[1] - 1).unsqueeze(1), value=True)
    logits = logits.where(keep, -torch.inf)
    return _finish(logits, labels, old_logprobs, advantages, valid=labels != ignore_index)


def negative_labels_ignored(
    hidden_states: Tensor, weight: Tensor, labels: Tensor, old_logprobs: Tensor, advantages: Tensor, ignore_index: int
) -> Results:
    """Takes tokens with negative labels for those that do not count."""
    del ignore_index
    return _finish(hidden_states @ weight.t(), labels, old_logprobs, advantages, valid=labels >= 0)


def ratios_not_limited(
    hidden_states: Tensor, weight: Tensor, labels: Tensor, old_logprobs: Tensor, advantages: Tensor, ignore_index: int
) -> Results:
    """Exponentiates log-ratios as they are."""
    loss, _, logprobs, losses, metrics = solution(hidden_states, weight, labels, old_logprobs, advantages, ignore_index)
    delta = logprobs.float() - old_logprobs.float()
    beyond = torch.where(labels != ignore_index, (delta - delta.clamp(-20, 20)).exp(), 1.0)
    return loss, None, logprobs, (losses.float() * beyond).to(losses.dtype), metrics


def without_maximum(
    hidden_states: Tensor, weight: Tensor, labels: Tensor, old_logprobs: Tensor, advantages: Tensor, ignore_index: int
) -> Results:
    """Exponentiates logits as they are."""
    logits = (hidden_states @ weight.t()).float()
    mass = logits.exp().sum(dim=1, keepdim=True).log()
    return _finish(logits - mass, labels, old_logprobs, advantages, valid=labels != ignore_index)


def extremes_from_the_first(
    hidden_states: Tensor, weight: Tensor, labels: Tensor, old_logprobs: Tensor, advantages: Tensor, ignore_index: int
) -> Results:
    """Takes the first token for one that counts where it begins to look for extreme ratios: 1 where it does not."""
    loss, _, logprobs, losses, metrics = solution(hidden_states, weight, labels, old_logprobs, advantages, ignore_index)
    if labels[0] == ignore_index:
        metrics[1:3] = torch.stack([metrics[1].clamp(max=1), metrics[2].clamp(min=1)])
    return loss, None, logprobs, losses, metrics


def lone_tokens_left_out(
    hidden_states: Tensor, weight: Tensor, labels: Tensor, old_logprobs: Tensor, advantages: Tensor, ignore_index: int
) -> Results:
    """Takes no loss where a single token of a rank counts."""
    loss, _, logprobs, losses, metrics = solution(hidden_states, weight, labels, old_logprobs, advantages, ignore_index)
    return loss, None, logprobs, losses * ((labels != ignore_index).sum() > 1), metrics


def shifted_by_the_label(
    hidden_states: Tensor, weight: Tensor, labels: Tensor, old_logprobs: Tensor, advantages: Tensor, ignore_index: int
) -> Results:
    """Subtracts the label's logit in place of the largest, so that exponentials overflow where a word is impossible."""
    valid = labels != ignore_index
    logits = (hidden_states @ weight.t()).float()
    own = logits.gather(1, labels.where(valid, 0).unsqueeze(1))
    mass = (logits - own).exp().sum(dim=1, keepdim=True).log()
    return _finish(logits - own - mass, labels, old_logprobs, advantages, valid=valid)


def whole_tiles(
    hidden_states: Tensor, weight: Tensor, labels: Tensor, old_logprobs: Tensor, advantages: Tensor, ignore_index: int
) -> Results:
    """Tiles of 4 tokens: what is left over gets no log-probability."""
    loss, _, logprobs, losses, metrics = solution(hidden_states, weight, labels, old_logprobs, advantages, ignore_index)
    covered = torch.arange(len(labels)) < len(labels) // 4 * 4
    return loss, None, logprobs * covered, losses * covered, metrics


def labels_in_16_bits(
    hidden_states: Tensor, weight: Tensor, labels: Tensor, old_logprobs: Tensor, advantages: Tensor, ignore_index: int
) -> Results:
    """Keeps the number of a word in two bytes."""
    short = labels.where(labels == ignore_index, labels % 65_536)
    return solution(hidden_states, weight, short, old_logprobs, advantages, ignore_index)


def losses_below_zero(*arguments: Any) -> Results:
    """Takes the loss for negative, as it is wherever advantages are positive."""
    loss, _, logprobs, losses, metrics = solution(*arguments)
    return -loss.abs(), None, logprobs, losses, metrics


HONEST = {"rounded_per_token": rounded_per_token, "wide_logits": wide_logits}
MUTANTS = {
    "without_ratio": without_ratio,
    "ignored_tokens_counted": ignored_tokens_counted,
    "mean_of_means": mean_of_means,
    "extremes_not_reduced": extremes_not_reduced,
    "half_the_vocabulary": half_the_vocabulary,
}
NARROW = {
    "ignored_word": negative_labels_ignored,
    "ratios_at_the_limit": ratios_not_limited,
    "unlikely_words": extremes_from_the_first,
    "impossible_words": shifted_by_the_label,
    "other_extents": whole_tiles,
    "one_token_counts": lone_tokens_left_out,
    "equal_logits": without_maximum,
    "many_words": labels_in_16_bits,
    "negative_advantages": losses_below_zero,
}
