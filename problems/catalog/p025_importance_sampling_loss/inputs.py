"""Arguments of one rank for one call."""

from math import log

import torch
from torch import Tensor

from problems.inputs.regime_values import LARGEST, SMALLEST, owner
from problems.inputs.values import Arguments, Call

IGNORE = -100
EXP_LIMIT = 80.0
"""Beyond it the exponential of float32 may be infinite."""
DRIFT = 0.5
"""Standard deviation of the difference between new and old log-probabilities."""
EQUAL_LOGITS = (128.0, -160.0)
"""What all logits of a token are in one regime: the exponential of float32 overflows beyond 88, is zero below -104."""
LEANS = {"unlikely": -8.0, "impossible": -140.0}
"""What is added to how far states lean to their labels: log-probabilities are from about -17 to -2, or below -89."""


def make_inputs(call: Call) -> Arguments:
    """Hidden states (M, N) that lean toward their labels, the head (V, N), labels, old log-probabilities, advantages.

    Log-probabilities then lie between about -6 and -0.1, as those of a trained model do, and old ones near the new
    ones. How many tokens are ignored and how large advantages are differs between ranks.
    """
    vocabulary, hidden = call.dims["V"], call.dims["N"]
    labels = call.integers("labels", ("M",), low=call.setting("first_label", 0), high=vocabulary)
    if call.setting("ignored_word", None) == "long":
        # The word that is left of `ignore_index` in 32 bits is the label of many tokens that count.
        labels[::4] = ignore_index(call) % 2**32
    weight = call.normal("weight", ("V", "N"), std=hidden**-0.5)
    wide = torch.log(torch.tensor(float(vocabulary))).item() + 0.5
    lean = call.uniform("lean", ("M", 1), low=wide - 5, high=wide + 2, dtype=torch.float32)
    lean += LEANS.get(call.setting("words", ""), 0.0)
    own = call.normal("hidden_states", ("M", "N"), dtype=torch.float32)
    states = (own + lean * weight[labels].float()).to(call.dtype)
    if _has_equal_logits(call):
        levels = torch.tensor(EQUAL_LOGITS, dtype=call.dtype, device=call.device)
        states.zero_()
        states[:, 0] = levels[call.integers("regime's levels", ("M",), low=0, high=len(levels))]
        weight[:, 0] = 1.0
    return {
        "hidden_states": states,
        "weight": weight,
        "labels": labels.where(~_ignored(call, lean[:, 0]), ignore_index(call)),
        "old_logprobs": _old(call, states, weight[labels], wide),
        "advantages": _advantages(call),
        "ignore_index": ignore_index(call),
    }


def ignore_index(call: Call) -> int:
    """The label of tokens that do not count: no word in timed calls; of other words than the first often the last."""
    word = call.setting("ignored_word", None)
    if word is None:
        return IGNORE
    if word == "none":
        return -1
    last = call.dims["V"] - 1
    other = int(call.integers("regime's ignored word", (), low=1, high=2 * last, shared=True))
    if word == "long":
        # With the last of these, the least numbers of 64 bits.
        return (1, -1, -(2**31))[other % 3] * 2**32 + min(last, other - 1)
    return 0 if word == "first" else min(last, other)


def _place(call: Call) -> float:
    """The rank's place in a secret order of the ranks, from 0 to 1."""
    order = call.permutation("order", call.world_size, shared=True)
    return float(order[call.rank]) / (call.world_size - 1)


def _ignored(call: Call, lean: Tensor) -> Tensor:
    """Which tokens do not count: from a twentieth of them to 55 in a hundred, by place, but never the first one.

    In one regime all do, and where words are unlikely the first never does. In another regime a single token counts on
    one rank: one that leans little to its label, since errors are measured against its own small numbers.
    """
    share = 0.05 + 0.5 * _place(call)
    ignored = call.uniform("ignored", ("M",), dtype=torch.float32) < share
    ignored[0] = _is_unlikely(call)
    if (tokens := call.setting("tokens", None)) == "one" and call.rank == owner(call):
        ignored.fill_(True)
        ignored[1 + int(lean[1:].argmin())] = False
    return torch.zeros_like(ignored) if tokens == "all" else ignored


def _old(call: Call, states: Tensor, chosen: Tensor, wide: float) -> Tensor:
    """Log-probabilities of an older policy: near those of `states`, without multiplying by the whole head.

    The other logits are almost normal with variance 1, so their exponentials add up to about V e^(1/2).
    """
    logit = (states.float() * chosen.float()).sum(dim=1)
    older_by = float(call.setting("older_by", 0.0))
    # Where the exponential is infinite, its logarithm is known.
    now = -torch.log1p(torch.exp(wide - logit)).where(wide - logit < EXP_LIMIT, wide - logit) + older_by
    if _has_equal_logits(call):
        now.fill_(-log(call.dims["V"]))
    return (now + call.normal("old_logprobs", ("M",), std=DRIFT, dtype=torch.float32)).clamp_(max=0.0).to(call.dtype)


def _advantages(call: Call) -> Tensor:
    """Normal, with a mean between 1/2 and 5/2 by place: positive, so that the loss does not cancel.

    Ranks with fewer tokens have larger means, so that a mean of the ranks' means is far from the mean over tokens.
    """
    mean = 0.5 + 2 * _place(call)
    advantages = (call.normal("advantages", ("M",), dtype=torch.float32) + mean).to(call.dtype)
    advantages *= {"large": LARGEST, "small": SMALLEST}.get(call.setting("size_of_advantages", "usual"), 1.0)
    kind = call.setting("advantages", None)
    if kind == "negative":
        return -LARGEST * advantages.abs()
    return torch.zeros_like(advantages) if kind == "zero" else advantages


def _is_unlikely(call: Call) -> bool:
    return bool(call.setting("words", None) == "unlikely")


def _has_equal_logits(call: Call) -> bool:
    """Whether all logits of a token are equal."""
    return bool(call.setting("equal_logits", usual=False))
