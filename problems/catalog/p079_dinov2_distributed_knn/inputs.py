"""Arguments of one rank for one call.

Features lie around class centres that all ranks share, half of k rows to a class and each at a distance of its own: a
query has near neighbours, middling ones and, to fill up k, strangers. Labels are distinct over all ranks, so that a
label says which row was meant even where similarities tie after rounding.
"""

import torch
from torch import Tensor

from problems.inputs.regime_values import owner
from problems.inputs.values import Arguments, Call

NEAREST = 0.95
"""Largest share of the centre in a feature; the smallest is 0."""

FAR = 6.0
"""How much of a feature lies on one side, in units of its own length, where no row is near any query."""


def make_inputs(call: Call) -> Arguments:
    """Queries (nq, D), training features (D, nl) and labels (1, nl) of the rank, k, and no group."""
    centres = _unit(call.normal("centres", (_classes(call), "D"), dtype=torch.float32, shared=True))
    rows = call.dims["nl"]
    labels = call.permutation("labels", call.world_size * rows, shared=True) + first_label(call)
    return {
        "test_features_rank": _features(call, "test", "nq", centres).to(call.dtype),
        "train_features_rank_T": _features(call, "train", "nl", centres).T.to(call.dtype).contiguous(),
        "train_labels_rank": labels[None, call.rank * rows : (call.rank + 1) * rows].clone(),
        "max_k": call.dims["k"],
        "group": None,
    }


def first_label(call: Call) -> int:
    """The least label of all ranks: 0 in timed calls."""
    return int(call.setting("first_label", 0))


def _classes(call: Call) -> int:
    """Number of classes with k/2 training rows each."""
    rows: int = call.setting("rows_in_classes_of", call.dims["k"])
    return max(2, 2 * call.world_size * call.dims["nl"] // rows)


def _features(call: Call, name: str, count: str, centres: Tensor) -> Tensor:
    """Unit rows (count, D) in float32."""
    own = centres[call.integers(f"{name} class", (count,), low=0, high=len(centres))]
    share = call.uniform(f"{name} share", (count, 1), high=NEAREST, dtype=torch.float32)
    if name == "test":
        share = (share + NEAREST) / 2  # queries near their centres, so that similarities spread
    away = _unit(call.normal(f"{name} away", (count, "D"), dtype=torch.float32))
    rows = _unit(own * share + away * (1 - share.square()).sqrt())
    if (near := call.setting("near", None)) == "opposite":
        return (_exact_unit(call) if name == "test" else -_exact_unit(call)).expand(len(rows), -1)
    if near is not None:
        is_near = name == "test" or (near == "one_rank" and call.rank == owner(call))
        side = (1 if is_near else -1) * (1 if near == "one_rank" else FAR)
        return _unit(rows + side * _unit(call.normal("regime's side", (1, "D"), dtype=torch.float32, shared=True)))
    if name == "train" and (different := call.setting("different_rows", None)) is not None:
        return rows[torch.arange(len(rows), device=call.device) % different]
    return rows


def _exact_unit(call: Call) -> Tensor:
    """A row (1, D) whose length is 1 in any dtype and any order of addition: a power of four of equal entries."""
    width = call.dims["D"]
    root = 1 << (width.bit_length() - 1) // 2
    signs = 2.0 * call.integers("regime's signs", (1, "D"), low=0, high=2, shared=True) - 1
    return signs * (torch.arange(width, device=call.device) < root * root) / root


def _unit(rows: Tensor) -> Tensor:
    unit: Tensor = rows / rows.norm(dim=-1, keepdim=True)
    return unit
