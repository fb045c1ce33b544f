"""How the values of a rank's tensor look in each of the regimes of `problems.spec.regimes`."""

from collections.abc import Callable

import torch
from torch import Tensor

from problems.inputs.values import Call

SMALLEST, LARGEST = 2.0**-24, 2.0**24
"""Powers of two, so that rounding is what it is in a usual call."""

_SPECIAL = (torch.nan, torch.inf, -torch.inf, -0.0, 1e-39, -1e-39)
_SPECIAL_SHARE = 1 / 16
_OTHERS_UNITS = 31
"""All ranks together add at most so many units to the one that holds most of an element; 8 bits hold up to 255."""


def in_regime(call: Call, name: str, tensor: Tensor) -> Tensor:
    """`tensor`, drawn by the rank as `name`, as the call's regime has its values; the very tensor in a usual call."""
    style = call.setting("values", None)
    return tensor if style is None else _STYLES[style](call, name, tensor)


def magnitude(call: Call) -> float:
    """By what a regime multiplies values, for arguments that are on the scale of the values."""
    further = 2.0 ** int(call.setting("further", "0"))
    return {"tiny": SMALLEST / further, "huge": LARGEST * further}.get(call.setting("values", ""), 1.0)


def at_end(call: Call, tensor: Tensor) -> Tensor:
    """`tensor`; where a regime has the largest value at an end of what is legal, all in proportion to that."""
    largest = tensor.abs().max()
    if (end := call.setting("largest", "usual")) == "usual" or not largest:
        return tensor
    return tensor * (float(end) / largest)


def unequal_sizes(call: Call, symbol: str) -> Tensor:
    """Powers of two of channels that a regime has of unequal size, tiny, usual or huge, the same on all ranks."""
    sizes = torch.tensor([SMALLEST, 1.0, LARGEST], device=call.device)
    return sizes[call.integers("regime's sizes of channels", (symbol,), low=0, high=len(sizes), shared=True)]


def owner(call: Call) -> int:
    """The one rank that a regime singles out in this call, the same for all ranks."""
    return int(call.integers("regime's owner", (), low=0, high=call.world_size, shared=True))


def _one_rank(call: Call, _name: str, tensor: Tensor) -> Tensor:
    return tensor if call.rank == owner(call) else torch.zeros_like(tensor)


def _special(call: Call, name: str, tensor: Tensor) -> Tensor:
    is_special = call.uniform(f"{name}: which are special", tensor.shape, dtype=torch.float32) < _SPECIAL_SHARE
    which = call.integers(f"{name}: special", tensor.shape, low=0, high=len(_SPECIAL))
    special = torch.tensor(_SPECIAL, dtype=torch.float64, device=call.device).to(tensor.dtype)[which]
    return torch.where(is_special, special, tensor)


def _exact_sums(call: Call, name: str, tensor: Tensor) -> Tensor:
    """Whole multiples of a power of two per element: on one rank of 8 bits, on the others of few, as in any sum."""
    shape, others = tensor.shape, max(1, call.world_size - 1)
    few = max(1, _OTHERS_UNITS // others)
    most = few * others
    unit = call.integers(f"{name}: unit", shape, low=-10, high=-4, shared=True).double().exp2()
    is_own = call.integers(f"{name}: owner", shape, low=0, high=call.world_size, shared=True) == call.rank
    whole = call.integers(f"{name}: whole", shape, low=128 + most, high=256 - most)
    part = call.integers(f"{name}: part", shape, low=1, high=few + 1)
    sign = 2 * call.integers(f"{name}: sign", shape, low=0, high=2) - 1
    return (torch.where(is_own, whole, part) * sign * unit).to(tensor.dtype)


def _mostly_plain(call: Call, name: str, tensor: Tensor) -> Tensor:
    """`tensor` with plain values but at a few places, or in a quarter of one of its dimensions, alike on all ranks."""
    if tensor.dim() == 0 or not tensor.numel():
        return tensor
    drawn = call.integers(f"{name}: what is not plain", (8,), low=0, high=2**40, shared=True)
    is_left = torch.zeros(tensor.shape, dtype=torch.bool, device=call.device)
    if call.setting("left", None) == "few":
        is_left.view(-1)[drawn % tensor.numel()] = True
    else:
        dimension, first = int(drawn[0]) % tensor.dim(), int(drawn[1])
        extent = tensor.shape[dimension]
        length = max(1, extent // 4)
        is_left.narrow(dimension, first % (extent - length + 1), length).fill_(value=True)
    if (style := call.setting("plain", "zero")) == "powers":
        return torch.where(
            is_left, tensor, torch.exp2(torch.frexp(tensor).exponent).mul_(tensor.sign()).to(tensor.dtype)
        )
    return torch.where(is_left, tensor, 0.0 if style == "zero" else tensor.flatten()[tensor.numel() // 2])


def unless_zero(call: Call, tensor: Tensor) -> Tensor:
    """`tensor`; zeros on the one rank whose factor a regime has zero."""
    is_zero = call.setting("factor", None) == "zero" and call.rank == owner(call)
    return torch.zeros_like(tensor) if is_zero else tensor


def is_exact(call: Call) -> bool:
    """Whether sums over ranks have no rounding error in this call."""
    return bool(call.setting("values", "") == "exact_sums")


def picks(call: Call) -> bool:
    """Whether one factor of a product only picks elements of the other in this call."""
    return bool(call.setting("product", "") == "picks")


def columns_picked(call: Call, like: Tensor) -> Tensor:
    """A matrix of the shape of `like`, the same on all ranks, with a single 1 per column: a product picks columns."""
    rows = call.integers("regime's picked rows", (1, like.shape[1]), low=0, high=like.shape[0], shared=True)
    return torch.zeros_like(like, dtype=call.dtype).scatter_(0, rows, 1)


_STYLES: dict[str, Callable[[Call, str, Tensor], Tensor]] = {
    "tiny": lambda call, _name, tensor: tensor * magnitude(call),
    "huge": lambda call, _name, tensor: tensor * magnitude(call),
    "zero": lambda _call, _name, tensor: torch.zeros_like(tensor),
    "one_rank": _one_rank,
    "special": _special,
    "exact_sums": _exact_sums,
    "plain": _mostly_plain,
}
