"""Inputs that differ from an earlier call's in a few elements: a cache keyed on samples returns stale output."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch

from problems.inputs.values import Call

_CHANGED = 8
_LOOKED_AT = 4096
_LEAST = 8 * _CHANGED
"""Draws with fewer elements stay the base's: they may be factors or lengths that change everything."""
_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(frozen=True, kw_only=True)
class NearCall(Call):
    """A call drawn as call number `base`, except for a few elements of every tensor, which come from its own number.

    The changed elements are the largest changes among secret indices. Draws that are not values of single elements
    (permutations, bare generators) are the base's.
    """

    base: int

    def generator(self, name: str, *, shared: bool = False) -> torch.Generator:
        """The base's generator."""
        return self._as(self.base).generator(name, shared=shared)

    def _as(self, index: int) -> Call:
        """The plain call number `index`."""
        known = {field.name: getattr(self, field.name) for field in fields(Call)}
        return Call(**{**known, "index": index})

    def _mixed(self, name: str, draw: Callable[[Call], torch.Tensor], **options: Any) -> torch.Tensor:
        fresh_call = self._as(self.index)
        old, new = draw(self._as(self.base)), draw(fresh_call)
        if old.numel() < _LEAST:
            return old
        generator = fresh_call.generator(f"{name}: changed elements", shared=options.get("shared", False))
        flat_old, flat_new = old.contiguous().view(-1), new.contiguous().view(-1)
        indices = torch.randint(
            old.numel(), (min(old.numel(), _LOOKED_AT),), generator=generator, device=old.device, dtype=torch.int64
        )
        change = (flat_new[indices].float() - flat_old[indices].float()).abs()
        chosen = indices[change.argsort(descending=True, stable=True)[:_CHANGED]]
        bits = _BITS[old.element_size()]
        flat_old.view(bits)[chosen] = flat_new.view(bits)[chosen]
        return flat_old.view(old.shape)


def _drawing(draw: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """As `draw`, a method of `Call`, with a few elements changed."""

    def drawn(self: NearCall, name: str, symbols: Sequence[str | int], **options: Any) -> torch.Tensor:
        return self._mixed(name, lambda call: draw(call, name, symbols, **options), **options)

    return drawn


for _kind in ("normal", "scales", "long_tailed", "uniform", "integers"):
    setattr(NearCall, _kind, _drawing(getattr(Call, _kind)))
