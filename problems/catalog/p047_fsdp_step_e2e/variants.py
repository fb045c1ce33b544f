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
    gathered,
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
    shard: Tensor,
    shapes: tuple[tuple[int, ...], ...],
    m: Tensor,
    v: Tensor,
    *numbers: float,
    width: torch.dtype = torch.float32,
    optimizer: torch.dtype | None = None,
    reduces: bool = True,
    scale: float = 1.0,
    is_corrected: bool = True,
    keeps_moments: bool = True,
    shift: int = 0,
    decays: float = 1.0,
    bent: Callable[[Tensor], Tensor] = as_it_is,
    by_ratio: bool = False,
    least_correction: float = 0.0,
    passes_at_zero: bool = False,
) -> tuple[Tensor, ...]:
    """The whole step, written out, in `width`, with the optimizer in another one; other arguments make it wrong."""
    lr, beta1, beta2, eps, weight_decay, step = numbers
    wide = [parameter.to(width) for parameter in cut(gathered(shard), [torch.Size(shape) for shape in shapes])]
    gradient = bent(backward(X.to(width), y.to(width), *wide, passes_at_zero=passes_at_zero)) * scale
    gradient = mean(gradient) if reduces else gradient
    place = (dist.get_rank() + shift) % dist.get_world_size()
    g = gradient.chunk(dist.get_world_size())[place].to(optimizer or width)
    w, m, v = (tensor.to(optimizer or width) for tensor in (shard, m * keeps_moments, v * keeps_moments))
    m, v = m * beta1 + (1 - beta1) * g, second_moment(v, g, beta2, by_ratio=by_ratio)
    second = correction(beta2, step, least=least_correction) if is_corrected else 1
    update = m / correction(beta1, step) / ((v / second).sqrt() + eps)
    w = w - lr * update - lr * weight_decay * decays * w
    return tuple(tensor.to(X.dtype) for tensor in (w, m, v))


def decay_twice(X: Tensor, y: Tensor, shard: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    """Twice the weight decay, of parameters that have moved already."""
    w, m, v = train(X, y, shard, *rest, decays=0.0)
    lr, weight_decay = rest[3], rest[7]
    return w - 2 * lr * weight_decay * w, m, v


def shards_kept(
    X: Tensor, y: Tensor, shard: Tensor, shapes: Any, m: Tensor, v: Tensor, *_rest: Any
) -> tuple[Tensor, ...]:
    """What was handed in."""
    return shard, m, v


def without_epsilon(*arguments: Any) -> tuple[Tensor, ...]:
    """Epsilon left out of the denominator."""
    *head, _eps, weight_decay, step = arguments
    return train(*head, 0.0, weight_decay, step)


HONEST = {
    "float32": train,
    "rounded_each_step": partial(train, width=torch.bfloat16),
    "float32_optimizer": partial(train, width=torch.bfloat16, optimizer=torch.float32),
}
MUTANTS = {
    "shards_kept": shards_kept,
    "without_decay": partial(train, decays=0.0),
    "decay_twice": decay_twice,
    "neighbours_gradient": partial(train, shift=1),
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
    "huge_weights": weights_up_to_1000(train, 2, 3),
    "at_the_kink": partial(train, passes_at_zero=True),
    "odd_sizes": tiles_of_16_samples(train),
    "default_decays": partial(train, least_correction=LEAST_CORRECTION),
}
