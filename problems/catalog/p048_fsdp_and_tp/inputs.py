"""Arguments of one rank for one call."""

import torch
from torch import Tensor

from problems.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """The samples of the rank's FSDP place, equal within its tensor-parallel group, and its blocks of the weights.

    Weights are scaled so that every product keeps the size of its input; channels differ in scale, as those of a
    trained model do.
    """
    tp, d = call.dims["n_tp"], call.dims["D"]
    return {
        "x_local": samples(call),
        "W1_shard": _weight(call, "W1_shard", ("D_shard", "F_shard"), std=d**-0.5),
        "W2_shard": _weight(call, "W2_shard", ("D_shard", "F_shard"), std=d**-0.5),
        "W3_shard": _weight(call, "W3_shard", ("F_shard", "D_shard"), std=call.dims["D_ff"] ** -0.5),
        "n_tp": tp,
        "n_fsdp": call.world_size // tp,
    }


def samples(call: Call) -> Tensor:
    """`x_local` (B_fsdp, D), drawn by the first rank of the tensor-parallel group for all of it."""
    first = call.at_rank(call.rank // call.dims["n_tp"] * call.dims["n_tp"])
    return first.normal("x_local", ("B_fsdp", "D"))


def _weight(call: Call, name: str, symbols: tuple[str, str], *, std: float) -> Tensor:
    columns = call.scales(f"{name} columns", (1, symbols[1]), spread=1.25)
    return call.normal(name, symbols, std=std, dtype=torch.float32).mul_(columns).to(call.dtype)
