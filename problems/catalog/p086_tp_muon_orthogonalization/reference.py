"""The baseline: one all-reduce for the norm, one of the Gram matrix in every step."""

import torch
import torch.distributed as dist
from torch import Tensor

TRIPLES = {
    "quintic": (
        (4.0848, -6.8946, 2.9270),
        (3.9505, -6.3029, 2.6377),
        (3.7418, -5.5913, 2.3037),
        (2.8769, -3.1427, 1.2046),
        (2.8366, -3.0525, 1.2012),
    ),
    "simple": ((3.4445, -4.7750, 2.0315),),
    "polar_express": (
        (8.2051, -22.9019, 16.4607),
        (4.0664, -2.8612, 0.5184),
        (3.9096, -2.8234, 0.5250),
        (3.2856, -2.4647, 0.5074),
        (2.2779, -1.6447, 0.4162),
        (1.8726, -1.2307, 0.3585),
        (1.8564, -1.2132, 0.3568),
        (1.8750, -1.2500, 0.3750),
    ),
    "aol": (
        (4.0098, -7.0585, 2.4635),
        (3.4585, -5.5479, 2.5959),
        (2.7573, -3.2939, 1.4254),
        (2.7215, -3.0494, 1.3169),
    ),
}


def solution(
    x: Tensor,
    steps: int = 5,
    coefficient_type: str = "quintic",
    partition_dim: int = 1,
    group: "dist.ProcessGroup | None" = None,
) -> Tensor:
    """The rank's part, shaped like `x`, of the Newton-Schulz iteration of the matrix cut along `partition_dim`."""
    triples = TRIPLES[coefficient_type]
    if partition_dim not in {0, 1} or steps % len(triples):
        raise ValueError(f"no iteration for partition_dim {partition_dim}, {steps} steps of {coefficient_type}")
    part = (x if partition_dim == 1 else x.mT).float()
    squares = part.square().sum()
    dist.all_reduce(squares, group=group)
    part = part / squares.sqrt().clamp(min=1e-7)
    for step in range(steps):
        a, b, c = triples[step % len(triples)]
        gram = part @ part.mT
        dist.all_reduce(gram, group=group)
        update = torch.addmm(gram, gram, gram, beta=b, alpha=c)
        part = torch.addmm(part, update, part, beta=a)
    out = part.to(x.dtype)
    return out if partition_dim == 1 else out.mT.contiguous()
