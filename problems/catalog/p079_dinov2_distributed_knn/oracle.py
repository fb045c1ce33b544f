"""The expected outputs, in float64, and a comparison that leaves the order of rounded ties free."""

from collections.abc import Iterator

import torch
from torch import Tensor

from problems.catalog.p079_dinov2_distributed_knn.inputs import first_label, make_inputs
from problems.catalog.p079_dinov2_distributed_knn.spec import PROBLEM
from problems.inputs.values import Call
from problems.outputs.comparison import Comparison, compare_output


def expected(call: Call) -> tuple[Tensor, ...]:
    """`topk_sims` (nq, k) in descending order and `topk_labels` (nq, k)."""
    candidates = []
    for similarities, labels in _shards(call):
        best, place = similarities.topk(call.dims["k"], dim=1)
        candidates.append((best, labels[place]))
    sims, labels = (torch.cat(parts, dim=1) for parts in zip(*candidates, strict=True))
    best, place = sims.topk(call.dims["k"], dim=1)
    return best, labels.gather(1, place)


def compare(call: Call, actual: tuple[Tensor, ...], expected: tuple[Tensor, ...]) -> tuple[Comparison, ...]:
    """Similarities as numbers; labels by the exact similarity of the rows that they name.

    Entry j of a query has to name a row whose similarity is that of the j-th nearest within the tolerance. A label that
    names no row, or a row named twice, counts as NaN.
    """
    sims, labels = actual
    named = _named_similarities(call, labels).masked_fill(_is_repeated(labels), torch.nan)
    return (
        compare_output(PROBLEM.outputs[0], sims, expected[0]),
        compare_output(PROBLEM.outputs[1], named, expected[0]),
    )


def _shards(call: Call) -> Iterator[tuple[Tensor, Tensor]]:
    """By rank, the similarities (nq, nl) of this rank's queries to its rows, and its labels (nl,)."""
    queries = make_inputs(call)["test_features_rank"].double()
    for rank in range(call.world_size):
        arguments = make_inputs(call.at_rank(rank))
        yield queries @ arguments["train_features_rank_T"].double(), arguments["train_labels_rank"][0]


def _named_similarities(call: Call, labels: Tensor) -> Tensor:
    """The exact similarity of the row behind every label (nq, k); NaN where there is none."""
    named = torch.full(labels.shape, torch.nan, dtype=torch.float64, device=labels.device)
    total, first = call.world_size * call.dims["nl"], first_label(call)
    is_label = (labels >= first) & (labels < first + total)
    known = (labels - first).where(is_label, 0)
    for similarities, own in _shards(call):
        column = torch.full((total,), -1, device=labels.device)
        column[own - first] = torch.arange(len(own), device=labels.device)
        place = column[known]
        found = similarities.gather(1, place.clamp(min=0))
        named = torch.where(is_label & (place >= 0), found, named)
    return named


def _is_repeated(labels: Tensor) -> Tensor:
    """Where a label of (nq, k) stands elsewhere in its row too."""
    ordered, order = labels.sort(dim=1)
    same = ordered[:, 1:] == ordered[:, :-1]
    edge = same.new_zeros(len(labels), 1)
    repeated = torch.cat([same, edge], dim=1) | torch.cat([edge, same], dim=1)
    return torch.zeros_like(repeated).scatter_(1, order, repeated)
