"""The expected outputs, in float64, iterated on the whole matrix."""

import torch
from torch import Tensor

from problems.catalog.p086_tp_muon_orthogonalization.inputs import make_inputs
from problems.inputs.values import Call

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
"""Coefficients (a, b, c) by type and step, as NVIDIA's Emerging-Optimizers gives them."""


def expected(call: Call) -> tuple[Tensor, ...]:
    """`out` (rows, cl): the rank's part of the iterated matrix."""
    every = [make_inputs(call.at_rank(rank)) for rank in range(call.world_size)]
    options = every[0]
    whole = torch.cat([arguments["x"] for arguments in every], dim=options["partition_dim"]).double()
    whole /= whole.norm().clamp(min=1e-7)
    # (X X^T)^k X = X (X^T X)^k: the smaller Gram matrix gives the same.
    transposed = whole.shape[0] > whole.shape[1]
    matrix = whole.T if transposed else whole
    triples = TRIPLES[options["coefficient_type"]]
    matrix = _factor(matrix @ matrix.T, [triples[step % len(triples)] for step in range(options["steps"])]) @ matrix
    whole = matrix.T if transposed else matrix
    return (whole.chunk(call.world_size, dim=options["partition_dim"])[call.rank].clone(),)


def _factor(gram: Tensor, triples: list[tuple[float, float, float]]) -> Tensor:
    """What all steps together multiply a matrix X with, where `gram` is X X^T.

    A step multiplies X with a polynomial P of its Gram matrix G, and the next Gram matrix is P G P. So nothing but the
    first Gram matrix and the result takes products as long as X.
    """
    step = factor = _polynomial(gram, *triples[0])
    for triple in triples[1:]:
        gram = step @ gram @ step
        step = _polynomial(gram, *triple)
        factor = step @ factor
    return factor


def _polynomial(gram: Tensor, a: float, b: float, c: float) -> Tensor:
    """The polynomial a I + b G + c G^2."""
    step = (b * gram).addmm_(gram, gram, alpha=c)
    step.diagonal().add_(a)
    return step
