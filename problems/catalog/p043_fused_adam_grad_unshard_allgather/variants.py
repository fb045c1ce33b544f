"""Programs that must pass and programs that must fail."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from problems.families.mlp_step_programs import (
    LEAST_CORRECTION,
    as_it_is,
    correction,
    flushed,
    second_moment,
    settled_after,
    seven_steps_at_most,
    through_float16,
)


def _gather(shard: Tensor) -> Tensor:
    """All shards, each broadcast by its owner."""
    parts = [shard.clone() for _ in range(dist.get_world_size())]
    for rank, part in enumerate(parts):
        dist.broadcast(part, rank)
    return torch.cat(parts)


def updated(
    g: Tensor,
    w: Tensor,
    m: Tensor,
    v: Tensor,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    step: int,
    *,
    width: torch.dtype = torch.float32,
    keeps_moments: bool = True,
    is_corrected: bool = True,
    has_epsilon: bool = True,
    bent: Callable[[Tensor], Tensor] = as_it_is,
    by_ratio: bool = False,
    least_correction: float = 0.0,
) -> Tensor:
    """The step written out in `width`; the other arguments make it wrong."""
    dtype = w.dtype
    g, w, m, v = (tensor.to(width) for tensor in (bent(g), w, m * keeps_moments, v * keeps_moments))
    m = m * beta1 + (1 - beta1) * g
    v = second_moment(v, g, beta2, by_ratio=by_ratio)
    v = v / correction(beta2, step, least=least_correction) if is_corrected else v
    eps = eps if has_epsilon else 0.0
    root = v.sqrt() + eps
    return _gather((w - lr * (m / (1 - beta1**step) / root)).to(dtype))


def gathered_first(g: Tensor, w: Tensor, m: Tensor, v: Tensor, *numbers: float) -> Tensor:
    """Gathers everything and updates all of it on every rank."""
    lr, beta1, beta2, eps, step = numbers
    g, w, m, v = (_gather(tensor).float() for tensor in (g, w, m, v))
    m.lerp_(g, 1 - beta1)
    v.mul_(beta2).addcmul_(g, g, value=1 - beta2)
    root = v.sqrt() / (1 - beta2**step) ** 0.5 + eps
    return w.addcdiv(m, root, value=-lr / (1 - beta1**step)).bfloat16()


def gradient_descent(g: Tensor, w: Tensor, m: Tensor, v: Tensor, lr: float, *_rest: float) -> Tensor:
    """A step along the sign of the gradient."""
    return _gather((w - lr * g.sign()).to(w.dtype))


def not_updated(g: Tensor, w: Tensor, *_rest: Tensor) -> Tensor:
    """The gathered parameters as they were."""
    return _gather(w)


def in_eights(g: Tensor, w: Tensor, m: Tensor, v: Tensor, *numbers: Any) -> Tensor:
    """Updates eight elements at a time; those that are left over stay as they were."""
    whole = len(w) // 8 * 8
    updated_whole = updated(g[:whole], w[:whole], m[:whole], v[:whole], *numbers).chunk(dist.get_world_size())
    left_over = _gather(w[whole:]).chunk(dist.get_world_size()) if whole < len(w) else ()
    parts = zip(updated_whole, left_over, strict=True) if left_over else ((part,) for part in updated_whole)
    return torch.cat([piece for part in parts for piece in part])


HONEST = {
    "float32": updated,
    "rounded_each_step": partial(updated, width=torch.bfloat16),
    "gathered_first": gathered_first,
}
MUTANTS = {
    "not_updated": not_updated,
    "gradient_descent": gradient_descent,
    "moments_from_zero": partial(updated, keeps_moments=False),
    "second_moment_not_corrected": partial(updated, is_corrected=False),
    "without_epsilon": partial(updated, has_epsilon=False),
}
NARROW = {
    "tiny_gradients": partial(updated, bent=flushed),
    "huge_gradients": partial(updated, bent=through_float16),
    "zero_gradients": partial(updated, by_ratio=True),
    "first_step": partial(updated, by_ratio=True),
    "late_step": seven_steps_at_most(updated),
    "many_steps": settled_after(1000, updated),
    "slow_decay": settled_after(9999, updated),
    "other_extents": in_eights,
    "default_decays": partial(updated, least_correction=LEAST_CORRECTION),
}
