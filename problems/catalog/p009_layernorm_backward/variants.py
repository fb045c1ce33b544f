"""Programs that must pass and programs that must fail."""

import torch
import torch.distributed as dist
from torch import Tensor

from problems.families.rank_parts import added_backwards, all_gathered

Gradients = tuple[Tensor, Tensor]


def in_float32(X_hat: Tensor, dY: Tensor) -> Gradients:
    """Products and sums in float32 throughout, rounded once."""
    wide = dY.float()
    sums = torch.stack(((wide * X_hat.float()).sum(dim=0), wide.sum(dim=0)))
    dist.all_reduce(sums)
    d_gamma, d_beta = sums.to(dY.dtype).unbind()
    return d_gamma, d_beta


def gathered_backwards(X_hat: Tensor, dY: Tensor) -> Gradients:
    """Gathers the rounded local sums and adds them in the run's dtype, last rank first."""
    own = torch.stack(((dY * X_hat).sum(dim=0), dY.sum(dim=0)))
    total = added_backwards(all_gathered(own))
    return total[0], total[1]


def by_row_blocks(X_hat: Tensor, dY: Tensor) -> Gradients:
    """Sums four blocks of rows apart in float32 and reduces each vector by itself in the run's dtype."""
    pairs = zip(X_hat.chunk(4), dY.chunk(4), strict=True)
    d_gamma = torch.stack([(dy.float() * x.float()).sum(dim=0) for x, dy in pairs]).sum(dim=0).to(dY.dtype)
    d_beta = torch.stack([dy.float().sum(dim=0) for dy in dY.chunk(4)]).sum(dim=0).to(dY.dtype)
    dist.all_reduce(d_gamma)
    dist.all_reduce(d_beta)
    return d_gamma, d_beta


def swapped(X_hat: Tensor, dY: Tensor) -> Gradients:
    """The shift's gradient first."""
    d_gamma, d_beta = in_float32(X_hat, dY)
    return d_beta, d_gamma


def mean_over_ranks(X_hat: Tensor, dY: Tensor) -> Gradients:
    """Averaged, as data parallelism does with gradients afterwards."""
    d_gamma, d_beta = in_float32(X_hat, dY)
    return d_gamma / dist.get_world_size(), d_beta / dist.get_world_size()


def every_other_row(X_hat: Tensor, dY: Tensor) -> Gradients:
    """Half of the rows, made up for in size."""
    d_gamma, d_beta = in_float32(X_hat[::2], dY[::2])
    return d_gamma * 2, d_beta * 2


def shift_not_reduced(X_hat: Tensor, dY: Tensor) -> Gradients:
    """The shift's gradient of the own rows alone."""
    d_gamma, _ = in_float32(X_hat, dY)
    return d_gamma, dY.sum(dim=0)


def normalised_again(X_hat: Tensor, dY: Tensor) -> Gradients:
    """Divides every row by its standard deviation once more, which rows of zeros do not have."""
    return in_float32(X_hat / X_hat.float().std(dim=1, correction=0, keepdim=True), dY)


HONEST = {"float32": in_float32, "backwards": gathered_backwards, "by_row_blocks": by_row_blocks}
MUTANTS = {
    "swapped": swapped,
    "mean_over_ranks": mean_over_ranks,
    "every_other_row": every_other_row,
    "shift_not_reduced": shift_not_reduced,
}
NARROW = {"uneven_rows": normalised_again}
