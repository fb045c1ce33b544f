"""Arguments of one rank for one call."""

import torch
from torch import Tensor

from problems.regime_values import in_regime
from problems.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """The samples of the rank's FSDP place, equal within its tensor-parallel group, and its blocks of the weights.

    Weights are scaled so that every product keeps the size of its input; channels differ in scale, as those of a
    trained model do.
    """
    tp, d = parts(call), call.dims["D"]
    rows, columns = _block(call)
    return {
        "x_local": samples(call),
        "W1_shard": _weight(call, "W1_shard", (rows, columns), std=d**-0.5),
        "W2_shard": _weight(call, "W2_shard", (rows, columns), std=d**-0.5),
        "W3_shard": _weight(call, "W3_shard", (columns, rows), std=call.dims["D_ff"] ** -0.5),
        "n_tp": tp,
        "n_fsdp": call.world_size // tp,
    }


def samples(call: Call) -> Tensor:
    """`x_local` (B_fsdp, D), drawn by the first rank of the tensor-parallel group for all of it."""
    first = call.at_rank(call.rank // parts(call) * parts(call))
    drawn = first.normal("x_local", ("B_fsdp", "D"))
    return drawn if call.setting("values", "") == "one_rank" else in_regime(call, "x_local", drawn)


def parts(call: Call) -> int:
    """`n_tp`: in how many parts the hidden units are cut."""
    return {"all": call.world_size, "none": 1}.get(call.setting("tensor_parallel", ""), call.dims["n_tp"])


def _block(call: Call) -> tuple[int, int]:
    """Rows and columns of a rank's blocks of the first two weights."""
    if parts(call) == call.dims["n_tp"]:
        return call.dims["D_shard"], call.dims["F_shard"]
    return call.dims["D"] * parts(call) // call.world_size, -(-call.dims["D_ff"] // parts(call))


def _weight(call: Call, name: str, shape: tuple[int, int], *, std: float) -> Tensor:
    columns = call.scales(f"{name} columns", (1, shape[1]), spread=1.25)
    weight = call.normal(name, shape, std=std, dtype=torch.float32).mul_(columns).to(call.dtype)
    return in_regime(call, name, weight) if call.setting("values", "") == "one_rank" else weight
