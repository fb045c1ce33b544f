"""The forward pass of an expert-parallel mixture-of-experts layer: values, and the answer in float64.

Several problems split it differently. Experts are owned in blocks by the ranks of a group; each rank has one SwiGLU
network for all its experts, in one problem with low-rank adapters. Sizes are M tokens per rank, N hidden size,
`num_experts`, `top_k`, `inter_dim` and, with adapters, `lora_r`.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from problems.inputs.copying import copies, picking
from problems.inputs.modules import Module, linear
from problems.inputs.regime_values import LARGEST, SMALLEST, magnitude, owner, unequal_sizes
from problems.inputs.values import Arguments, Call

_MARGIN = 0.25
"""By how much the logit of the last expert chosen exceeds the next: many times what bfloat16 logits are off by."""

_OUTLIER = 10.0
"""How much larger outlier channels are. Beside them, one 8-bit scale per row is too coarse."""

_ALONE = 128.0
"""By how much a regime raises a token's first choice: its weight is 1, that of any other 0."""

_OPEN = 32.0
"""Where SiLU hands on what it is given; a power of two, so that a product with it has no rounding error."""

_FAR = {"low": -512.0, "high": 512.0}
"""What a regime adds to all logits: exponentials of float32 are zero, or those of float64 infinite for some tokens."""

_LEVEL = 256.0
"""By how much more a regime raises the first choice of some tokens than of others: the exponential of -256 is zero."""

_ALIKE = 16
"""In so many first channels some tokens of a regime are equal, or zero."""

_CLOSED = 18
"""Gates of a regime lie from this far below zero to 4 further, where SiLU is about -2^-24."""

_UNLIKELY, _LOUD = 5.0, 2.0**10
"""How far a regime moves biases: of the expert that all tokens choose up, of the others down. And how much louder the
networks of the others' owners are: second choices of a probability around 2^-13 then count for an eighth."""

_UNPOPULAR = -8.0
"""What is added to the bias of experts that no token shall choose: logits differ by far less."""


def draw(call: Call) -> Arguments:
    """One rank's arguments in signature order.

    The router is the same on all ranks; its bias makes some experts more popular than others. Logits differ little,
    so that every choice carries weight.
    """
    call = sized(call)
    return {
        **_routed(call),
        **_network(call),
        "num_experts": call.dims["num_experts"],
        "top_k": call.dims["top_k"],
        "group": None,
    }


def sized(call: Call) -> Call:
    """The call with as many experts, and as many chosen per token, as its regime has."""
    experts = call.dims["num_experts"] * call.setting("times_experts", 1)
    top_k = call.setting("top_k", call.dims["top_k"])
    if call.setting("every_expert", usual=False):
        top_k = experts
    # A single expert is all that can be chosen.
    return replace(call, dims={**call.dims, "num_experts": experts, "top_k": min(top_k, experts)})


def _routed(call: Call) -> Arguments:
    """The rank's tokens and the router."""
    gate_weight = call.normal("gate_weight", ("num_experts", "N"), std=0.5 * call.dims["N"] ** -0.5, shared=True)
    gate_bias = _popularity(call) if call.setting("gate_bias", usual=True) else None
    if _has_alike(call):
        gate_weight[:, :_ALIKE] = 0
    tokens = _in_regime(call, _tokens(call, gate_weight, gate_bias))
    return {
        "hidden_states": tokens,
        "gate_weight": gate_weight.div_(_size_of_tokens(call)).mul_(call.setting("zero", "") != "router"),
        "gate_bias": gate_bias,
    }


def _network(call: Call) -> Arguments:
    """The rank's own network with its adapters: all that others' tokens need of it."""
    return {
        "gate_proj": _linear(call, "gate_proj", "inter_dim", "N"),
        "up_proj": _linear(call, "up_proj", "inter_dim", "N"),
        "down_proj": _linear(call, "down_proj", "N", "inter_dim"),
        **_adapters(call),
    }


def _popularity(call: Call) -> Tensor:
    """`gate_bias` (num_experts): evenly spaced in a drawn order, up to half a logit from the mean.

    The spread is small in even calls and large in odd ones, so that the bias of the next call never does by chance.
    """
    spread = call.uniform("spread", (1,), low=0.1, high=0.2, dtype=torch.float32, shared=True) + 0.3 * (call.index % 2)
    places = call.permutation("popularity", call.dims["num_experts"], shared=True)
    steps = torch.linspace(-1.0, 1.0, call.dims["num_experts"], device=call.device)
    popularity = spread * steps[places]
    if call.setting("same_experts", usual=False):
        popularity += _UNPOPULAR
        popularity[_chosen_by_all(call)] -= _UNPOPULAR
    popularity += _FAR.get(call.setting("logits", ""), 0.0)
    if _has_favourite(call):
        popularity -= _UNLIKELY
        popularity[_chosen_by_all(call)[0]] += 2 * _UNLIKELY
    return popularity.to(call.dtype)


def _chosen_by_all(call: Call) -> Tensor:
    """The experts (top_k) of all tokens: those of one rank as far as it has enough, and of the next.

    If no token may choose any of the one that a regime singles out, they are those of the next ranks.
    """
    experts = call.dims["num_experts"]
    one = owner(call) + (call.setting("same_experts", usual="") == "elsewhere")
    owners = _owners(call)
    first: int = one % owners * (experts // owners)
    return (first + torch.arange(call.dims["top_k"], device=call.device)) % experts


def _owners(call: Call) -> int:
    """How many ranks share the experts."""
    return min(call.dims["num_experts"], call.world_size)


def _has_favourite(call: Call) -> bool:
    """Whether all tokens choose one expert first, and others with a small probability."""
    return bool(call.setting("others", "") == "unlikely")


def _channels(call: Call, name: str) -> Tensor:
    """Factors (N) of unit root mean square: one channel in 32 is an outlier, at places drawn for the call."""
    count = call.dims["N"]
    factors = torch.ones(count, device=call.device)
    factors[call.permutation(name, count, shared=True)[: max(1, count // 32)]] = _OUTLIER
    return factors / factors.square().mean().sqrt()


def _logits(tokens: Tensor, gate_weight: Tensor, gate_bias: Tensor | None) -> Tensor:
    """The router's logits (M, num_experts), in the dtype of `tokens`."""
    logits = tokens @ gate_weight.to(tokens.dtype).T
    return logits if gate_bias is None else logits + gate_bias.to(tokens.dtype)


def _in_regime(call: Call, tokens: Tensor) -> Tensor:
    """The tokens as the call's regime has them: huge, all zero, or none at all on one rank."""
    style = call.setting("tokens", None)
    tokens *= _size_of_tokens(call)
    if style == "none_on_one_rank" and call.rank == owner(call):
        return tokens[:0]
    return torch.zeros_like(tokens) if call.setting("zero", "") == "tokens" else tokens


def _has_alike(call: Call) -> bool:
    """Whether some tokens look alike in their first channels, which the router then does not see."""
    return bool(call.setting("channels", "") == "alike")


def _size_of_tokens(call: Call) -> float | Tensor:
    """By what a regime multiplies tokens, and divides what they are multiplied by, so that results stay the same.

    One number, or one for each of the N channels.
    """
    if (style := call.setting("tokens", "")) == "unequal":
        return unequal_sizes(call, "N")
    return {"huge": LARGEST, "tiny": SMALLEST}.get(style, 1.0)


def _tokens(call: Call, gate_weight: Tensor, gate_bias: Tensor | None) -> Tensor:
    """`hidden_states` (M, N), different on every rank, none of whose choices of experts is a close one.

    The logits of the experts that a token would choose are raised by the margin, others not. The smallest change of
    the token that does so is a combination of the rows of the pseudo-inverse of the router, whose rows are independent.
    """
    tokens = call.normal("hidden_states", ("M", "N"), dtype=torch.float32).mul_(_channels(call, "token outliers"))
    if _has_alike(call):
        tokens[2::4, :_ALIKE] = 0
        tokens[3::4, :_ALIKE] = tokens[1::4, :_ALIKE][: len(tokens[3::4])]
    router = gate_weight.float()
    chosen = _logits(tokens, gate_weight, gate_bias).topk(call.dims["top_k"], dim=1).indices
    raised = torch.zeros(tokens.shape[0], router.shape[0], device=call.device).scatter_(1, chosen, _MARGIN)
    if copies(call):
        raised.scatter_(1, chosen[:, :1], _alone(call, len(tokens)))
    tokens.addmm_(raised, torch.linalg.solve(router @ router.T, router))
    if _has_alike(call) and not copies(call):
        tokens[0] = 0
    return tokens.to(call.dtype)


def _alone(call: Call, count: int) -> Tensor:
    """By how much the first choices (count, 1) are raised: where all logits are far from zero, not all by as much."""
    alone = torch.full((count, 1), _ALONE, device=call.device)
    if call.setting("logits", None) is not None:
        alone += _LEVEL * call.integers("regime's levels", (count, 1), low=0, high=2)
    return alone


def _linear(call: Call, name: str, outputs: str, inputs: str) -> Module:
    """One projection of the rank's own; its output channels have outliers where they are the layer's output."""
    if copies(call):
        return _copying(call, name, outputs, inputs)
    weight = call.normal(f"{name} weight", (outputs, inputs), std=call.dims[inputs] ** -0.5, dtype=torch.float32)
    if outputs == "N":
        weight *= _channels(call, "output outliers").unsqueeze(1)
    size = _size(call, name)
    weight *= size / (_size_of_tokens(call) if inputs == "N" else 1.0)
    weight *= call.setting("zero", "") != name
    if name.removesuffix("_proj") not in call.setting("projection_biases", "gate/up/down").split("/"):
        return linear(weight.to(call.dtype))
    bias = call.normal(f"{name} bias", (outputs,), std=0.3 * size)
    if name == "gate_proj" and _is_closed(call):
        bias -= _CLOSED + call.integers(f"{name} bias", (outputs,), low=0, high=32) / 8
    return linear(weight.to(call.dtype), bias)


def _copying(call: Call, name: str, outputs: str, inputs: str) -> Module:
    """A projection of an expert that copies elements of its token: gates are open, all else picks one number each."""
    weight = picking(call, f"{name} weight", (outputs, inputs))
    bias = torch.zeros(call.dims[outputs], dtype=call.dtype, device=call.device)
    if name == "gate_proj":
        return linear(weight.zero_(), bias.fill_(_OPEN))
    return linear(weight / _OPEN if name == "down_proj" else weight, bias)


def _size(call: Call, name: str) -> float:
    """By what a regime multiplies the projection called `name`: what makes the output, the gates, or both factors."""
    gates, hidden = (float(call.setting(setting, 1.0)) for setting in ("gates", "hidden"))
    is_loud = _has_favourite(call) and (call.rank - owner(call)) % _owners(call) != 0
    return {
        "down_proj": magnitude(call) / hidden * (_LOUD if is_loud else 1.0),
        "gate_proj": gates,
        "up_proj": hidden * (LARGEST if _is_closed(call) else 1.0),
    }[name]


def _is_closed(call: Call) -> bool:
    """Whether gates are biases alone, which are so far below zero that little passes."""
    return bool(call.setting("gates", 1.0) == 0)


def _adapters(call: Call) -> dict[str, Tensor]:
    """Low-rank adapters of the rank's own, about half as large as the projections; none where `lora_r` is not given."""
    if "lora_r" not in call.dims:
        return {}
    adapters = {}
    for name, outputs, inputs in (("gate", "inter_dim", "N"), ("up", "inter_dim", "N"), ("down", "N", "inter_dim")):
        narrow = call.normal(f"lora_{name}_A", ("lora_r", inputs), std=call.dims[inputs] ** -0.5)
        if call.setting("adapters", "") == "zero_row" and len(narrow) > 1:
            narrow[0] = 0
        adapters[f"lora_{name}_A"] = narrow.div_(_size_of_tokens(call)) if inputs == "N" else narrow
        adapters[f"lora_{name}_B"] = call.normal(
            f"lora_{name}_B", (outputs, "lora_r"), std=0.5 * call.dims["lora_r"] ** -0.5 * _size(call, f"{name}_proj")
        )
        if copies(call):
            adapters[f"lora_{name}_B"].zero_()
    return adapters


def expected(call: Call, *, owners: int) -> tuple[Tensor, ...]:
    """`out` (M, N): the weighted sum of what the owners of each token's experts compute, in float64.

    `owners` neighbouring ranks form a group and own the experts in blocks.
    """
    call = sized(call)
    own = _routed(call)
    tokens = own["hidden_states"].double()
    logits = _logits(tokens, own["gate_weight"], own["gate_bias"])
    weights, experts = logits.softmax(dim=1).topk(call.dims["top_k"], dim=1)
    out = torch.zeros_like(tokens)
    first = call.rank // owners * owners
    for place in range(owners):
        is_owned = experts // (call.dims["num_experts"] // owners) == place
        rows = is_owned.any(dim=1).nonzero().squeeze(1)
        owned_weight = (weights * is_owned).sum(dim=1)[rows]
        made = expert(tokens[rows], _network(call.at_rank(first + place)))
        out.index_add_(0, rows, made.mul_(owned_weight.unsqueeze(1)))
    return (out,)


def silu(gate: Tensor) -> Tensor:
    """SiLU in place."""
    return nn.functional.silu(gate, inplace=True)


def expert(rows: Tensor, arguments: Mapping[str, Any], *, activation: Callable[[Tensor], Tensor] = silu) -> Tensor:
    """What the rank with these arguments makes of token rows (n, N), in the dtype of `rows`."""
    gate = activation(project(rows, arguments, "gate"))
    return project(gate.mul_(project(rows, arguments, "up")), arguments, "down")


def project(rows: Tensor, arguments: Mapping[str, Any], name: str) -> Tensor:
    """The projection called `name` with its bias and its adapter, where there is one."""
    module = arguments[f"{name}_proj"]
    parts = module.tensors if isinstance(module, Module) else dict(module.named_parameters())
    out = rows @ parts["weight"].to(rows.dtype).T
    if "bias" in parts:
        out.add_(parts["bias"].to(rows.dtype))
    if f"lora_{name}_A" in arguments:
        narrow, wide = (arguments[f"lora_{name}_{part}"].to(rows.dtype) for part in "AB")
        out.addmm_(rows @ narrow.T, wide.T)
    return out
