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
    backward,
    correction,
    cut,
    flushed,
    known_by_sums,
    second_moment,
    settled_after,
    seven_steps_at_most,
    through_float16,
    tiles_of_16_samples,
    weights_up_to_1000,
)
from problems.families.rank_parts import all_gathered

Reduce = Callable[[Tensor], Tensor]


def _summed(vector: Tensor) -> Tensor:
    """The mean over ranks by an all-reduce."""
    dist.all_reduce(vector)
    return vector / dist.get_world_size()


def _gathered(vector: Tensor) -> Tensor:
    """The mean over ranks, added up in float32 last rank first."""
    return torch.stack(all_gathered(vector)[::-1]).float().mean(dim=0).to(vector.dtype)


def train(
    X: Tensor,
    y: Tensor,
    *rest: Any,
    width: torch.dtype = torch.float32,
    optimizer: torch.dtype | None = None,
    reduce: Reduce = _summed,
    is_corrected: bool = True,
    counts: tuple[bool, bool, bool] = (True, True, True),
    broadcasts: bool = True,
    bent: Callable[[Tensor], Tensor] = as_it_is,
    by_ratio: bool = False,
    least_correction: float = 0.0,
    passes_at_zero: bool = False,
) -> tuple[Tensor, ...]:
    """The whole step, written out, in `width`, with the optimizer in another one; other arguments make it wrong."""
    state, (lr, beta1, beta2, eps, step) = [tensor.clone() for tensor in rest[:12]], rest[12:]
    for place, tensor in enumerate(state):
        if broadcasts or place < 4:
            dist.broadcast(tensor, 0)
    wide = [tensor.to(width) * counts[place // 4] for place, tensor in enumerate(state)]
    flat = backward(X.to(width), y.to(width), *wide[:4], passes_at_zero=passes_at_zero)
    gradients = [reduce(bent(part).contiguous()) for part in cut(flat, [tensor.shape for tensor in wide[:4]])]
    wide, gradients = ([tensor.to(optimizer or width) for tensor in some] for some in (wide, gradients))
    ws, ms, vs = [], [], []
    for w, m, v, g in zip(wide[:4], wide[4:8], wide[8:], gradients, strict=True):
        ms.append(m * beta1 + (1 - beta1) * g)
        vs.append(second_moment(v, g, beta2, by_ratio=by_ratio))
        first = correction(beta1, step)
        second = correction(beta2, step, least=least_correction) if is_corrected else 1
        ws.append(w - lr * (ms[-1] / first / ((vs[-1] / second).sqrt() + eps)))
    return tuple(tensor.to(X.dtype) for tensor in (*ws, *ms, *vs))


def parameters_kept(*arguments: Any) -> tuple[Tensor, ...]:
    """Moments updated, parameters as they were on rank 0."""
    kept = [tensor.clone() for tensor in arguments[2:6]]
    for tensor in kept:
        dist.broadcast(tensor, 0)
    return (*kept, *train(*arguments)[4:])


def without_epsilon(*arguments: Any) -> tuple[Tensor, ...]:
    """Epsilon left out of the denominator."""
    *head, _eps, step = arguments
    return train(*head, 0.0, step)


HONEST = {
    "float32": train,
    "rounded_each_step": partial(train, width=torch.bfloat16),
    "float32_optimizer": partial(train, width=torch.bfloat16, optimizer=torch.float32),
    "gathered": partial(train, width=torch.bfloat16, reduce=_gathered),
}
MUTANTS = {
    "parameters_kept": parameters_kept,
    "local_gradient": partial(train, reduce=lambda vector: vector),
    "summed_gradient": partial(train, reduce=lambda vector: _summed(vector) * dist.get_world_size()),
    "second_moment_not_corrected": partial(train, is_corrected=False),
    "moments_from_zero": partial(train, counts=(True, False, False)),
    "moments_not_broadcast": partial(train, broadcasts=False),
    "without_epsilon": without_epsilon,
}
NARROW = {
    "tiny_gradients": partial(train, bent=flushed),
    "huge_gradients": partial(train, bent=through_float16),
    "first_step": partial(train, by_ratio=True),
    "late_step": seven_steps_at_most(train),
    "many_steps": settled_after(1000, train),
    "slow_decay": settled_after(9999, train),
    "huge_weights": weights_up_to_1000(train, 2, 6),
    "at_the_kink": partial(train, passes_at_zero=True),
    "odd_sizes": tiles_of_16_samples(train),
    "default_decays": partial(train, least_correction=LEAST_CORRECTION),
    "stale_copies": known_by_sums(train),
}
