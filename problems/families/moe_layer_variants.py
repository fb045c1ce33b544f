"""Programs for the mixture-of-experts layers that must pass or fail, made from two honest ways of computing them.

One moves the owners' networks to the tokens, the other moves all tokens to all owners and sums the results. A `Twist`
makes either wrong in one point. They run in the group of owners that `group_of` gives.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from problems.families.attention_programs import softmax_from_zero
from problems.families.moe_layer import expert, silu
from problems.families.rank_parts import all_gathered

Group = dist.ProcessGroup | None
GroupOf = Callable[[int], Group]
Program = Callable[..., Tensor]


@dataclass(frozen=True, kw_only=True)
class Twist:
    """What a program changes; the default changes nothing.

    Attributes:
        weights: from the chosen weights (M, top_k) to those used.
        places: from the number of an owner within the group and the group's size to the owner used.
        is_last_silent: whether results of the last owner are left out.
        per_owner: how many experts an owner is taken to have; None for what `num_experts` says.
        weighs_without_bias: whether probabilities count where the router has no bias.
        makes_biases: whether modules made anew keep the bias that they are born with where none is given.
        all_as_gate: whether the other projections count as without bias where `gate_proj` has none.
        softmax: what stands for the softmax of the router's logits.
        activation: what stands for SiLU.
        stops_at_idle: whether the round over owners, from the own place on, ends at the first that nobody chose.
    """

    weights: Callable[[Tensor], Tensor] = lambda weights: weights
    places: Callable[[Tensor, int], Tensor] = lambda places, _count: places
    is_last_silent: bool = False
    per_owner: Callable[[int], int] | None = None
    weighs_without_bias: bool = True
    makes_biases: bool = False
    all_as_gate: bool = False
    softmax: Callable[[Tensor], Tensor] = lambda logits: logits.softmax(dim=1)
    stops_at_idle: bool = False
    activation: Callable[[Tensor], Tensor] = silu


def _route(tokens: Tensor, arguments: Mapping[str, Any], owners: int, twist: Twist) -> tuple[Tensor, Tensor]:
    """Weights (n, top_k) in float32 and the places of the experts' owners."""
    logits, bias = tokens.float() @ arguments["gate_weight"].float().T, arguments["gate_bias"]
    weights, experts = twist.softmax(logits if bias is None else logits + bias.float()).topk(arguments["top_k"], dim=1)
    if bias is None and not twist.weighs_without_bias:
        weights = torch.full_like(weights, 1 / arguments["top_k"])
    per_owner = twist.per_owner(owners) if twist.per_owner else arguments["num_experts"] // owners
    return twist.weights(weights), twist.places(experts // per_owner, owners)


def _add(
    out: Tensor,
    tokens: Tensor,
    network: Mapping[str, Any],
    weights: Tensor,
    is_owned: Tensor,
    *,
    activation: Callable[[Tensor], Tensor],
) -> None:
    """Add to `out` what one owner makes of its rows."""
    rows = is_owned.any(dim=1).nonzero().squeeze(1)
    share = (weights * is_owned).sum(dim=1)[rows].unsqueeze(1)
    out[rows] += share * expert(tokens[rows], network, activation=activation).float()


def _networks(arguments: Mapping[str, Any], group: Group, twist: Twist) -> list[Mapping[str, Any]]:
    """Every owner's network, in float32."""
    own = {
        name: dict(value.named_parameters()) if isinstance(value, nn.Module) else value
        for name, value in arguments.items()
        if isinstance(value, nn.Module) or name.startswith("lora_")
    }
    if twist.all_as_gate and "bias" not in own["gate_proj"]:
        own = {name: {"weight": value["weight"]} if isinstance(value, dict) else value for name, value in own.items()}
    gathered: list[dict[str, Any]] = [{} for _ in range(dist.get_world_size(group))]
    for name, value in own.items():
        parts = {
            part: _gather(tensor, group) for part, tensor in (value if isinstance(value, dict) else {"": value}).items()
        }
        for place, network in enumerate(gathered):
            network[name] = _linear(parts, place, twist) if isinstance(value, dict) else parts[""][place]
    return list(gathered)


def _linear(parts: Mapping[str, Sequence[Tensor]], place: int, twist: Twist) -> nn.Linear:
    outputs, inputs = parts["weight"][place].shape
    module = nn.Linear(inputs, outputs, bias=twist.makes_biases or "bias" in parts).requires_grad_(False)
    for name, tensors in parts.items():
        getattr(module, name).copy_(tensors[place])
    return module


def _gather(tensor: Tensor, group: Group) -> list[Tensor]:
    return all_gathered(tensor.detach(), group)


def _gather_tokens(tokens: Tensor, group: Group) -> list[Tensor]:
    """Every rank's tokens (n, N), of which each may have another number."""
    counts = [int(count) for count in _gather(torch.tensor([len(tokens)], device=tokens.device), group)]
    padded = nn.functional.pad(tokens, (0, 0, 0, max(counts) - len(tokens)))
    return [part[:count] for part, count in zip(_gather(padded, group), counts, strict=True)]


def _round(places: Tensor, owners: int, group: Group, twist: Twist) -> list[int]:
    """The owners to visit, from the own place on."""
    me = dist.get_rank(group)
    others = [(me + step) % owners for step in range(owners)]
    if twist.is_last_silent:
        others.remove(owners - 1)
    if twist.stops_at_idle:
        loads = places.flatten().bincount(minlength=owners)
        dist.all_reduce(loads, group=group)
        busy = loads.tolist()
        others = list(takewhile(lambda place: busy[place], others))
    return others


def networks_moved(names: Sequence[str], group_of: GroupOf, twist: Twist = Twist()) -> Program:
    """Gathers the owners' networks and computes the own tokens at home, in float32."""

    def program(*values: Any) -> Tensor:
        arguments = dict(zip(names, values, strict=True))
        group = group_of(arguments["num_experts"])
        networks = _networks(arguments, group, twist)
        tokens = arguments["hidden_states"].float()
        weights, places = _route(tokens, arguments, len(networks), twist)
        out = torch.zeros_like(tokens)
        for place in _round(places, len(networks), group, twist):
            _add(out, tokens, networks[place], weights, places == place, activation=twist.activation)
        return out.to(arguments["hidden_states"].dtype)

    return program


def tokens_moved(names: Sequence[str], group_of: GroupOf, twist: Twist = Twist()) -> Program:
    """Gathers all tokens, computes in the run's dtype what the own network contributes to them, and sums in float32."""

    def program(*values: Any) -> Tensor:
        arguments = dict(zip(names, values, strict=True))
        group = group_of(arguments["num_experts"])
        me, owners = dist.get_rank(group), dist.get_world_size(group)
        shares = _gather_tokens(arguments["hidden_states"], group)
        tokens = torch.cat(shares)
        weights, places = _route(tokens, arguments, owners, twist)
        out = torch.zeros_like(tokens, dtype=torch.float32)
        _add(out, tokens, arguments, weights, places == me, activation=twist.activation)
        dist.all_reduce(out, group=group)
        own: Tensor = out.split([len(share) for share in shares])[me]
        return own.to(tokens.dtype)

    return program


def all_ranks(_num_experts: int) -> None:
    """The group where all ranks own experts: the world."""


def honest(names: Sequence[str], group_of: GroupOf) -> dict[str, Program]:
    """Two programs that must pass."""
    return {"networks_moved": networks_moved(names, group_of), "tokens_moved": tokens_moved(names, group_of)}


def mutants(names: Sequence[str], group_of: GroupOf, *, with_second: bool) -> dict[str, Program]:
    """Programs that must fail; `with_second` where every size has a second choice to forget."""
    twists = {
        "renormalised": Twist(weights=lambda weights: weights / weights.sum(dim=1, keepdim=True)),
        "unweighted": Twist(weights=lambda weights: torch.full_like(weights, 1 / weights.shape[1])),
        "owners_rotated": Twist(places=lambda places, count: (places + 1) % count),
        "last_owner_silent": Twist(is_last_silent=True),
    }
    if with_second:
        twists["second_choice_forgotten"] = Twist(weights=lambda weights: weights * (weights == weights[:, :1]))
    return {name: networks_moved(names, group_of, twist) for name, twist in twists.items()}


def narrow(names: Sequence[str], group_of: GroupOf, *, per_owner: Callable[[int], int]) -> dict[str, Program]:
    """Programs that are right but in the regime they are called by; `per_owner` is an owner's usual part of experts."""
    twists = {
        "no_gate_bias": Twist(weighs_without_bias=False),
        "no_projection_biases": Twist(makes_biases=True),
        "more_experts": Twist(per_owner=per_owner),
        "same_experts": Twist(stops_at_idle=True),
        "large_gates": Twist(activation=_by_exponentials),
        "closed_gates": Twist(activation=_by_tanh),
        "unlikely_choice": Twist(weights=lambda weights: weights * (weights >= 1e-3)),
        "some_projection_biases": Twist(all_as_gate=True),
        "far_logits": Twist(softmax=softmax_from_zero),
    }
    programs = {name: networks_moved(names, group_of, twist) for name, twist in twists.items()}
    return programs | {
        "one_rank_has_no_tokens": _one_token_at_least(networks_moved(names, group_of)),
        "one_rank_is_idle": _one_token_at_least(networks_moved(names, group_of)),
        "one_token": _squeezed(networks_moved(names, group_of)),
        "zero_tokens": _nothing_from_zero(networks_moved(names, group_of), names),
        "few_tokens": _in_tiles(networks_moved(names, group_of)),
        "huge_hidden": _with_networks_in_float16(networks_moved(names, group_of)),
    }


def _by_exponentials(gate: Tensor) -> Tensor:
    """SiLU by a quotient of exponentials: no number where they overflow."""
    return gate * (gate.exp() / (1 + gate.exp()))


def _by_tanh(gate: Tensor) -> Tensor:
    """SiLU by a hyperbolic tangent, which is -1 in float32 where some of it is left: zero below about -18."""
    half = gate / 2
    return half + half * half.tanh()


def _nothing_from_zero(program: Program, names: Sequence[str]) -> Program:
    """`program`, but zeros on a rank whose tokens, or all of whose weights of one kind, are zero."""

    def sparing(*values: Any) -> Tensor:
        out = program(*values)
        tensors = [
            value.weight if isinstance(value, nn.Linear) else value for value in values[: names.index("down_proj") + 1]
        ]
        is_nothing = any(not tensor.any() for tensor in tensors if tensor is not None and tensor.numel())
        return torch.zeros_like(out) if is_nothing else out

    return sparing


def _squeezed(program: Program) -> Program:
    """`program`, whose result has lost extents of 1."""
    return lambda *values: program(*values).squeeze()


def _one_token_at_least(program: Program) -> Program:
    """`program`, with a token of zeros for a rank that holds none."""

    def padding(tokens: Tensor, *rest: Any) -> Tensor:
        return program(tokens if len(tokens) else tokens.new_zeros((1, tokens.shape[1])), *rest)

    return padding


def _in_tiles(program: Program) -> Program:
    """`program` on tiles of 16 tokens, whole numbers of which a rank has to have."""

    def tiled(tokens: Tensor, *rest: Any) -> Tensor:
        return program(tokens.view(-1, 16, tokens.shape[1]).flatten(0, 1), *rest)

    return tiled


def _with_networks_in_float16(program: Program) -> Program:
    """`program`, whose projections have been through float16."""

    def rounding(*values: Any) -> Tensor:
        return program(*(_through_float16(value) if isinstance(value, nn.Linear) else value for value in values))

    return rounding


def _through_float16(linear: nn.Linear) -> nn.Linear:
    rounded = nn.Linear(
        linear.in_features, linear.out_features, bias=linear.bias is not None, dtype=linear.weight.dtype
    ).requires_grad_(False)
    for name, tensor in linear.named_parameters():
        getattr(rounded, name).copy_(tensor.half())
    return rounded
