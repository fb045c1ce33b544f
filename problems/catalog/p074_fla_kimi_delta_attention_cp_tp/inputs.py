"""Arguments of one rank for one call.

Gates are low and differ from channel to channel, so that channels forget over tens to thousands of tokens and the
state crosses the borders between ranks.
"""

import torch
from torch import Tensor

from problems.families.delta_rule import in_length_regime
from problems.inputs.groups import contiguous, strided, world
from problems.inputs.regime_values import in_regime
from problems.inputs.values import Arguments, Call

SHORTEST = 2e-12
"""Of the queries and keys that are not zero; with room for rounding above the floor of their norm."""
GATE_MEAN = -6.0
SATURATED = 128.0


def make_inputs(call: Call) -> Arguments:
    """Queries, keys, values, gates and strengths of the rank's tokens; decay parameters of all heads; two groups."""
    dims, size = call.dims, call.world_size
    has_tensor_group = dims["tp"] > 1
    return {
        "q": queries(call),
        **remembered(call),
        "cp_group": strided(call.rank, world_size=size, group_size=dims["cp"]) if has_tensor_group else world(size),
        "tp_group": contiguous(call.rank, world_size=size, group_size=dims["tp"]) if has_tensor_group else None,
    }


def queries(call: Call) -> Tensor:
    """The queries (B, Ls, Hh, Kd) of the rank's tokens; in one regime a quarter of them are zero."""
    return _padded(call, _rows(call, "q"), "zero_queries")


def remembered(call: Call) -> dict[str, Tensor]:
    """All arguments that the state depends on: nothing else of a rank matters to later ones."""
    return {
        "k": _keys(call),
        "v": _values(call),
        "g": _gates(call),
        "beta": _strengths(call),
        "a_log": call.uniform("a_log", ("Hh",), low=-0.25, high=0.25, dtype=torch.bfloat16, shared=True),
        "dt_bias": call.uniform("dt_bias", ("Hh*Kd",), low=-1.0, high=1.0, dtype=torch.bfloat16, shared=True),
    }


def _gates(call: Call) -> Tensor:
    """The gates (B, Ls, Hh, Kd) of the rank's tokens; in one regime sigmoids of them are 0 or 1, or all 0."""
    raw = call.normal("g", ("B", "Ls", "Hh", "Kd"), mean=call.setting("gate_mean", GATE_MEAN))
    if call.setting("fast", "all") == "most":
        raw[..., ::4] += GATE_MEAN - call.setting("gate_mean", GATE_MEAN)
    kind = call.setting("saturated", None)
    return raw if kind is None else SATURATED * (-torch.ones_like(raw) if kind == "first_alone" else raw.sign())


def _strengths(call: Call) -> Tensor:
    """Of the rank's tokens (B, Ls, Hh); in one regime sigmoids of them are 0 or 1, or 1 for the first token alone."""
    raw = call.normal("beta", ("B", "Ls", "Hh"))
    kind = call.setting("saturated", None)
    if kind == "first_alone":
        raw = -torch.ones_like(raw)
        raw[:, 0] = 1
    return raw if kind is None else SATURATED * raw.sign()


def _keys(call: Call) -> Tensor:
    """The keys (B, Ls, Hh, Kd) of the rank's tokens; in one regime a quarter of them are zero or all are equal."""
    if call.setting("zero_keys", None) != "equal":
        return _padded(call, _rows(call, "k"), "zero_keys")
    keys = call.normal("regime's key", ("B", 1, "Hh", "Kd"), shared=True).expand(call.shape(("B", "Ls", "Hh", "Kd")))
    return in_length_regime(call, "k", keys.contiguous(), least=SHORTEST)


def _rows(call: Call, name: str) -> Tensor:
    """Queries or keys (B, Ls, Hh, Kd); in one regime all are short."""
    return in_length_regime(call, name, call.normal(name, ("B", "Ls", "Hh", "Kd")), least=SHORTEST)


def _padded(call: Call, rows: Tensor, regime: str) -> Tensor:
    """`rows` (B, Ls, Hh, Kd), a quarter of them zero in the regime."""
    if call.setting(regime, usual=False):
        rows *= call.uniform(f"regime's {regime}", ("B", "Ls", "Hh", 1), dtype=torch.float32) >= 1 / 4
    return rows


def _values(call: Call) -> Tensor:
    """The values (B, Ls, Hh, Vd) of the rank's tokens; in one regime only those of the first are not zero."""
    values = in_regime(call, "v", call.long_tailed("v", ("B", "Ls", "Hh", "Vd")))
    if call.setting("zero_queries", usual=False):
        values[..., 0] = 0
    return values if call.setting("v_on", "all") == "all" or call.rank < call.dims["tp"] else torch.zeros_like(values)
