"""Arguments of one rank for one call."""

import torch
from torch import Tensor

from problems.inputs.copying import copies, odd_values
from problems.inputs.regime_values import LARGEST, SMALLEST, in_regime, unequal_sizes
from problems.inputs.values import Arguments, Call

_OPEN = 32.0
"""Where SiLU hands on what it is given; a power of two, so that a product with it has no rounding error."""


def make_inputs(call: Call) -> Arguments:
    """The samples of the rank's FSDP place, equal within its tensor-parallel group, and its blocks of the weights.

    Weights are scaled so that every product keeps the size of its input; channels differ in scale, as those of a
    trained model do.
    """
    tp, d = parts(call), call.dims["D"]
    rows, columns = _block(call)
    weights = (
        _copying_weights(call)
        if copies(call)
        else {
            "W1_shard": _for_channels(call, _gate(call, _weight(call, "W1_shard", (rows, columns), std=d**-0.5))),
            "W2_shard": _for_channels(call, _weight(call, "W2_shard", (rows, columns), std=d**-0.5)),
            "W3_shard": _weight(call, "W3_shard", (columns, rows), std=call.dims["D_ff"] ** -0.5),
        }
    )
    return {
        "x_local": samples(call),
        **weights,
        "n_tp": tp,
        "n_fsdp": call.world_size // tp,
    }


def samples(call: Call) -> Tensor:
    """`x_local` (B_fsdp, D), drawn by the first rank of the tensor-parallel group for all of it."""
    first = call.at_rank(call.rank // parts(call) * parts(call))
    if copies(call):
        powers = first.integers("powers of two", ("B_fsdp", "D"), low=-2, high=3).to(call.dtype).exp2_()
        powers[:, 0] = _OPEN
        return powers
    drawn = first.normal("x_local", ("B_fsdp", "D"))
    if (closed_by := call.setting("closed_by", None)) is not None:
        drawn[:, 0] = closed_by
    if call.setting("channels", None) is not None:
        drawn *= unequal_sizes(call, "D")
    if call.setting("first_sample", None) == "zero":
        drawn[0] = 0
    return drawn if call.setting("values", "") == "one_rank" else in_regime(call, "x_local", drawn)


def _for_channels(call: Call, weight: Tensor) -> Tensor:
    """A block of the first two weights, divided by what a regime multiplies its channels of the samples by."""
    if call.setting("channels", None) is None:
        return weight
    place = call.rank // parts(call)
    return weight / unequal_sizes(call, "D").to(weight.dtype)[place * len(weight) :][: len(weight), None]


def parts(call: Call) -> int:
    """`n_tp`: in how many parts the hidden units are cut."""
    usual = call.dims["n_tp"]
    return {"all": call.world_size, "none": 1, "exchanged": call.world_size // usual}.get(
        call.setting("tensor_parallel", ""), usual
    )


def _block(call: Call) -> tuple[int, int]:
    """Rows and columns of a rank's blocks of the first two weights."""
    if parts(call) == call.dims["n_tp"]:
        return call.dims["D_shard"], call.dims["F_shard"]
    return call.dims["D"] * parts(call) // call.world_size, -(-call.dims["D_ff"] // parts(call))


def _copying_weights(call: Call) -> dict[str, Tensor]:
    """Blocks of weights with which every output is a power of two times an element of the second weight.

    The first weight opens all gates alike; columns of the other two hold one number each, over all blocks.
    """
    tp, (rows, columns) = parts(call), _block(call)
    place, part = divmod(call.rank, tp)
    gate = torch.zeros(rows, columns, dtype=call.dtype, device=call.device)
    if place == 0:
        gate[0] = 1.0
    row = call.integers(f"regime's rows of part {part}", (columns,), low=0, high=call.dims["D"], shared=True)
    unit = call.integers("regime's units", ("D",), low=0, high=tp * columns, shared=True)
    own_units = unit[place * rows : (place + 1) * rows]
    return {
        "W1_shard": gate,
        "W2_shard": _one_per_column(row - place * rows, odd_values(call, "W2_shard", (columns,)), rows=rows),
        "W3_shard": _one_per_column(own_units - part * columns, torch.full_like(gate[:, 0], 1 / _OPEN), rows=columns),
    }


def _gate(call: Call, weight: Tensor) -> Tensor:
    """`weight`; where a regime closes all gates, one that turns the first element of a sample to the other sign."""
    if call.setting("closed_by", None) is not None:
        weight.zero_()
        if call.rank < parts(call):
            weight[0] = -1.0
    return weight


def _one_per_column(row_of: Tensor, values: Tensor, *, rows: int) -> Tensor:
    """A block with one of `values` in each column, in the row that `row_of` names, if the block has that row."""
    is_here = (row_of >= 0) & (row_of < rows)
    block = values.new_zeros(rows, len(row_of))
    block[row_of[is_here], is_here.nonzero()[:, 0]] = values[is_here]
    return block


def _weight(call: Call, name: str, shape: tuple[int, int], *, std: float) -> Tensor:
    columns = call.scales(f"{name} columns", (1, shape[1]), spread=1.25)
    weight = call.normal(name, shape, std=std, dtype=torch.float32).mul_(columns).to(call.dtype)
    if (weights := call.setting("weights", None)) is not None:
        return weight * {"tiny": SMALLEST, "huge": LARGEST}[weights]
    return in_regime(call, name, weight) if call.setting("values", "") == "one_rank" else weight
