"""Programs that must pass and programs that must fail."""

from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor

from problems.catalog.p086_tp_muon_orthogonalization.reference import TRIPLES
from problems.families.rank_parts import all_gathered


def _gather(x: Tensor, dim: int) -> Tensor:
    """The whole matrix."""
    return torch.cat(all_gathered(x), dim=dim)


def gathered(
    x: Tensor,
    steps: int,
    coefficient_type: str,
    partition_dim: int,
    group: None,
    *,
    width: torch.dtype = torch.float32,
    left_out: int = 0,
    local_norm: bool = False,
    least_norm: float = 1e-7,
    added: float = 0.0,
) -> Tensor:
    """Gathers the matrix and iterates all of it in `width`; the last arguments make it wrong."""
    rows_cut = partition_dim == 0
    whole = _gather(x, partition_dim).float()
    norm = x.float().norm() * dist.get_world_size() ** 0.5 if local_norm else whole.norm()
    matrix = (whole / (norm.clamp(min=least_norm) + added)).to(width)
    matrix = matrix.T if rows_cut else matrix
    table = TRIPLES[coefficient_type]
    for step in range(steps - left_out):
        a, b, c = table[step % len(table)]
        gram = matrix @ matrix.T
        matrix = a * matrix + (b * gram + c * gram @ gram) @ matrix
    matrix = matrix.T if rows_cut else matrix
    return matrix.chunk(dist.get_world_size(), dim=partition_dim)[dist.get_rank()].to(x.dtype).contiguous()


def gram_once(x: Tensor, steps: int, coefficient_type: str, partition_dim: int, group: None) -> Tensor:
    """One all-reduce of the first Gram matrix; every later one is a polynomial of it."""
    part = (x if partition_dim == 1 else x.T).double()
    gram = part @ part.T
    dist.all_reduce(gram)
    total = gram.trace().clamp(min=1e-14)
    gram, part = gram / total, part / total.sqrt()
    product = torch.eye(len(gram), dtype=torch.float64)
    table = TRIPLES[coefficient_type]
    for step in range(steps):
        a, b, c = table[step % len(table)]
        factor = a * torch.eye(len(gram), dtype=torch.float64) + b * gram + c * gram @ gram
        product, gram = factor @ product, factor @ gram @ factor
    out = (product @ part).to(x.dtype)
    return out if partition_dim == 1 else out.T.contiguous()


def own_part_alone(x: Tensor, steps: int, coefficient_type: str, partition_dim: int, group: None) -> Tensor:
    """Each part iterated by itself."""
    part = (x if partition_dim == 1 else x.T).float()
    part = part / part.norm()
    table = TRIPLES[coefficient_type]
    for step in range(steps):
        a, b, c = table[step % len(table)]
        gram = part @ part.T
        part = a * part + (b * gram + c * gram @ gram) @ part
    return (part if partition_dim == 1 else part.T).to(x.dtype).contiguous()


def polar_factor(x: Tensor, steps: int, coefficient_type: str, partition_dim: int, group: None) -> Tensor:
    """The exact orthogonal factor, which the iteration only approximates."""
    left, _, right = torch.linalg.svd(_gather(x, partition_dim).float(), full_matrices=False)
    return (left @ right).chunk(dist.get_world_size(), dim=partition_dim)[dist.get_rank()].to(x.dtype).contiguous()


def small_directions_dropped(x: Tensor, steps: int, coefficient_type: str, partition_dim: int, group: None) -> Tensor:
    """Iterates singular values, and takes those below a 200th of the norm for zero."""
    whole = _gather(x, partition_dim).float()
    left, values, right = torch.linalg.svd(whole / whole.norm().clamp(min=1e-7), full_matrices=False)
    values = values.where(values > 0.005, 0.0)
    table = TRIPLES[coefficient_type]
    for step in range(steps):
        a, b, c = table[step % len(table)]
        values = a * values + b * values**3 + c * values**5
    return (left * values @ right).chunk(dist.get_world_size(), dim=partition_dim)[dist.get_rank()].to(x.dtype)


HONEST = {
    "gathered": gathered,
    "in_float64": partial(gathered, width=torch.float64),
    "gram_once": gram_once,
}
MUTANTS = {
    "in_bfloat16": partial(gathered, width=torch.bfloat16),
    "one_step_less": partial(gathered, left_out=1),
    "local_norm": partial(gathered, local_norm=True),
    "own_part_alone": own_part_alone,
    "polar_factor": polar_factor,
}
NARROW = {
    "tiny_values": partial(gathered, least_norm=1e-3),
    "below_the_floor": partial(gathered, least_norm=1e-9),
    "near_the_floor": partial(gathered, least_norm=0.0, added=1e-7),
    "one_direction": small_directions_dropped,
}
