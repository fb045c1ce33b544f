"""Arguments of one rank for one call.

Gates are low and differ from head to head, so that a head forgets over tens to thousands of tokens and the state
crosses the borders between ranks.
"""

from math import log

import torch
from torch import Tensor

from problems.families.delta_rule import in_length_regime
from problems.inputs.regime_values import in_regime
from problems.inputs.values import Arguments, Call

SHORTEST = 2e-6
"""Of the queries and keys that are not zero; with room for rounding above the floor of their norm."""
GATE_MEAN = -5.0
SATURATED = 128.0
FASTEST = 0.3
"""By how much at most the logarithm of what a state recalls falls with a token where it should fall within a shard."""


def make_inputs(call: Call) -> Arguments:
    """Queries, keys, values, gates and strengths of the rank's tokens; decay parameters of the rank's heads."""
    own = slice(call.rank * call.dims["Hl"], (call.rank + 1) * call.dims["Hl"])
    a_log, dt_bias = decay_parameters(call)
    return {
        "q": queries(call),
        **remembered(call),
        "a_log": a_log[own].clone(),
        "dt_bias": dt_bias[own].clone(),
        "group": None,
    }


def queries(call: Call) -> Tensor:
    """The queries (B, Ls, Hh, Kd) of the rank's tokens; in one regime a quarter of them are zero."""
    return _padded(call, _rows(call, "q"), "zero_queries")


def remembered(call: Call) -> dict[str, Tensor]:
    """The arguments of a rank that the state depends on beside the decay parameters."""
    return {
        "k": _keys(call),
        "v": _values(call),
        "gate": _gates(call),
        "beta": _strengths(call),
    }


def _strengths(call: Call) -> Tensor:
    """The strengths (B, Ls, Hh) of the rank's tokens; in one regime they may be 0 for a head of the first sequence."""
    strengths = _saturated(call, call.normal("beta", ("B", "Ls", "Hh"), dtype=torch.float32)).sigmoid().to(call.dtype)
    if call.setting("saturated", None) == "one_head_learns_nothing":
        strengths[0, :, 0] = 0
    return strengths


def _gates(call: Call) -> Tensor:
    """The gates (B, Ls, Hh) of the rank's tokens; in one regime such that all heads forget alike within a shard."""
    if (forgotten := call.setting("forgotten", None)) is None:
        return _saturated(call, call.normal("gate", ("B", "Ls", "Hh"), mean=call.setting("gate_mean", GATE_MEAN)))
    a_log, dt_bias = (parameter.float() for parameter in decay_parameters(call))
    wanted = min(forgotten / call.dims["Ls"], FASTEST)
    noise = call.normal("gate", ("B", "Ls", "Hh"), std=0.25, dtype=torch.float32)
    return (noise + log(wanted) - a_log - dt_bias).to(call.dtype)


def decay_parameters(call: Call) -> tuple[Tensor, Tensor]:
    """`a_log` and `dt_bias` (Hh,) of all heads."""
    a_log = call.uniform("a_log", ("Hh",), low=-1.0, high=1.0, dtype=torch.bfloat16, shared=True)
    return a_log, call.uniform("dt_bias", ("Hh",), low=-1.0, high=1.0, dtype=torch.bfloat16, shared=True)


def _saturated(call: Call, raw: Tensor) -> Tensor:
    """Gates, or what strengths are a sigmoid of; in one regime far from zero, to either side."""
    return raw if call.setting("saturated", None) is None else SATURATED * raw.sign()


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
    values = call.long_tailed("v", ("B", "Ls", "Hh", "Vd"))
    if call.setting("zero_queries", usual=False):
        values[..., 0] = 0
    if call.setting("huge_on", "all") == "all" or call.rank == call.world_size - 1:
        values = in_regime(call, "v", values)
    return values if call.setting("v_on", "all") == "all" or call.rank == 0 else torch.zeros_like(values)
