"""Arguments of one rank for one call."""

import torch

from problems.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`local_tensor` (M, N), the two lists of W row counts, and no group."""
    rows = row_counts(call)
    return {
        "local_tensor": call.normal("local_tensor", ("M", "N")),
        "input_split_sizes": rows[call.rank],
        "output_split_sizes": [row[call.rank] for row in rows],
        "group": None,
    }


def row_counts(call: Call) -> list[list[int]]:
    """How many rows rank r sends to rank d, W x W; every row and every column adds up to M.

    A sum of 2 W permutation matrices, each as heavy as a random share of M: uneven, with zeros, the same secret on
    every rank. The shares are the gaps between random cuts.
    """
    layers = 2 * call.world_size
    cuts = call.integers("cuts", (layers - 1,), low=0, high=call.dims["M"] + 1, shared=True).sort().values.tolist()
    shares = [end - start for start, end in zip([0, *cuts], [*cuts, call.dims["M"]], strict=True)]
    counts = torch.zeros(call.world_size, call.world_size, dtype=torch.int64)
    for layer, share in enumerate(shares):
        targets = call.permutation(f"targets{layer}", call.world_size, shared=True).cpu()
        counts[torch.arange(call.world_size), targets] += share
    rows: list[list[int]] = counts.tolist()
    return rows
