"""Programs for the problems of ZeRO stages 1 and 2 that must pass or fail; what is right for one is for both."""

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
    gathered,
    known_by_sums,
    mean,
    second_moment,
    settled_after,
    seven_steps_at_most,
    through_float16,
    tiles_of_16_samples,
    weights_up_to_1000,
)


def train(
    X: Tensor,
    y: Tensor,
    *rest: Any,
    width: torch.dtype = torch.float32,
    optimizer: torch.dtype | None = None,
    reduces: bool = True,
    scale: float = 1.0,
    is_corrected: bool = True,
    keeps_moments: bool = True,
    updates: bool = True,
    shift: int = 0,
    bent: Callable[[Tensor], Tensor] = as_it_is,
    by_ratio: bool = False,
    least_correction: float = 0.0,
    passes_at_zero: bool = False,
) -> tuple[Tensor, ...]:
    """The whole step, written out, in `width`, with the optimizer in another one; other arguments make it wrong."""
    parameters, (m, v), (lr, beta1, beta2, eps, step) = rest[:4], rest[4:6], rest[6:]
    shapes = [parameter.shape for parameter in parameters]
    flat = torch.cat([parameter.reshape(-1) for parameter in parameters])
    dist.broadcast(flat, 0)
    wide = [parameter.to(width) for parameter in cut(flat, shapes)]
    gradient = bent(backward(X.to(width), y.to(width), *wide, passes_at_zero=passes_at_zero)) * scale
    gradient = mean(gradient) if reduces else gradient
    place = (dist.get_rank() + shift) % dist.get_world_size()
    own = optimizer or width
    g, w = (vector.chunk(dist.get_world_size())[place].to(own) for vector in (gradient, flat))
    m, v = (
        m.to(own) * keeps_moments * beta1 + (1 - beta1) * g,
        second_moment(v.to(own) * keeps_moments, g, beta2, by_ratio=by_ratio),
    )
    first = correction(beta1, step)
    second = correction(beta2, step, least=least_correction) if is_corrected else 1
    w = w - lr * updates * (m / first / ((v / second).sqrt() + eps))
    return (*cut(gathered(w.to(X.dtype)), shapes), m.to(X.dtype), v.to(X.dtype))


def without_epsilon(*arguments: Any) -> tuple[Tensor, ...]:
    """Epsilon left out of the denominator."""
    *head, _eps, step = arguments
    return train(*head, 0.0, step)


def own_part_only(*arguments: Any) -> tuple[Tensor, ...]:
    """Own part updated, the others' parameters as they were on rank 0."""
    before = train(*arguments, updates=False)
    after = train(*arguments)
    shapes = [parameter.shape for parameter in before[:4]]
    old, new = (torch.cat([tensor.reshape(-1) for tensor in one[:4]]) for one in (before, after))
    rank, part = dist.get_rank(), after[4].numel()
    old[rank * part : (rank + 1) * part] = new[rank * part : (rank + 1) * part]
    return (*cut(old, shapes), *after[4:])


HONEST = {
    "float32": train,
    "rounded_each_step": partial(train, width=torch.bfloat16),
    "float32_optimizer": partial(train, width=torch.bfloat16, optimizer=torch.float32),
}
MUTANTS = {
    "not_updated": partial(train, updates=False),
    "own_part_only": own_part_only,
    "neighbours_part": partial(train, shift=1),
    "local_gradient": partial(train, reduces=False),
    "gradient_doubled": partial(train, scale=2.0),
    "second_moment_not_corrected": partial(train, is_corrected=False),
    "moments_from_zero": partial(train, keeps_moments=False),
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
