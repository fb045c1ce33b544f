"""Arguments of one rank for one call."""

import torch
from torch import Tensor

from problems.inputs.regime_values import LARGEST, SMALLEST, columns_picked, in_regime, picks, unequal_sizes
from problems.inputs.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`hidden_states` (num_tokens, hidden), equal on all ranks; `weight_shard` (local_vocab, hidden); `bias_shard`.

    Rows of the weight differ widely in length, so that a row of logits holds large and small ones, which one 8-bit
    scale cannot serve; the bias is as large as a typical logit.
    """
    weight = call.normal(
        "weight_shard", ("local_vocab", "hidden"), std=call.dims["hidden"] ** -0.5, dtype=torch.float32
    )
    scales = {"huge": (LARGEST, LARGEST), "tiny": (SMALLEST, SMALLEST), "zero": (0.0, 1.0)}
    style = call.setting("hidden", "")
    times, divided = (unequal_sizes(call, "hidden"),) * 2 if style == "unequal" else scales.get(style, (1.0, 1.0))
    hidden = call.normal("hidden_states", ("num_tokens", "hidden"), shared=True).mul_(times)
    if style == "second_rows":
        hidden[::2] = 0.0
    return {
        "hidden_states": hidden,
        **_shards(call, weight.mul_(call.scales("rows", ("local_vocab", 1))).div_(divided)),
    }


def _shards(call: Call, weight: Tensor) -> Arguments:
    """The rank's `weight_shard` (local_vocab, hidden), drawn as `weight`, and `bias_shard` as the regime has them."""
    bias = call.normal("bias_shard", ("local_vocab",))
    if (sign := call.setting("biases", "usual")) != "usual":
        bias = bias.abs() if sign == "positive" else -bias.abs()
    if picks(call):
        return {"weight_shard": columns_picked(call, weight.t()).t().contiguous(), "bias_shard": torch.zeros_like(bias)}
    weight = (
        weight.to(call.dtype)
        if call.setting("hidden", "") != "no_weight"
        else torch.zeros_like(weight, dtype=call.dtype)
    )
    shards = {"weight_shard": weight, "bias_shard": bias}
    return {name: in_regime(call, name, shard) for name, shard in shards.items()}
