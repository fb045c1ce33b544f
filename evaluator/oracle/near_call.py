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
    """A call drawn as call number `base`, except for a few elements of every tensor, at secret indices.

    They are the largest changes to this call's own number. Or the largest elements change places with the smallest,
    which leaves sums as they were. Permutations and bare generators are the base's.
    """

    base: int

    def generator(self, name: str, *, shared: bool = False) -> torch.Generator:
        """The base's generator."""
        return self._as(self.base).generator(name, shared=shared)

    def _as(self, index: int) -> Call:
        """The plain call number `index`."""
        return Call(**{field.name: getattr(self, field.name) for field in fields(Call)} | {"index": index})

    def _mixed(self, name: str, draw: Callable[[Call], torch.Tensor], **options: Any) -> torch.Tensor:
        fresh_call = self._as(self.index)
        old, new = (draw(call).contiguous() for call in (self._as(self.base), fresh_call))
        if old.numel() < _LEAST:
            return old
        generator = fresh_call.generator(f"{name}: changed elements", shared=options.get("shared", False))
        some = torch.randint(old.numel(), (1 + min(old.numel(), _LOOKED_AT),), generator=generator, device=old.device)
        indices = some[1:].unique()
        changed, fresh = (each.view(-1).view(_BITS[old.element_size()]) for each in (old, new))
        before, after = (each.view(-1)[indices].float() for each in (old, new))
        if some[0] % 2:
            chosen = indices[before.argsort(stable=True)[[*range(_CHANGED // 2), *range(-_CHANGED // 2, 0)]]]
            changed[chosen] = changed[chosen.flip(0)]
        else:
            chosen = indices[(after - before).abs().argsort(descending=True, stable=True)[:_CHANGED]]
            changed[chosen] = fresh[chosen]
        return old


def _drawing(draw: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """As `draw`, a method of `Call`, with a few elements changed."""

    def drawn(self: NearCall, name: str, symbols: Sequence[str | int], **options: Any) -> torch.Tensor:
        return self._mixed(name, lambda call: draw(call, name, symbols, **options), **options)

    return drawn


for _kind in ("normal", "scales", "long_tailed", "uniform", "integers"):
    setattr(NearCall, _kind, _drawing(getattr(Call, _kind)))
