"""Programs that must pass and programs that must fail."""

from math import prod
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from problems.families.fields import one_step_for_all
from problems.families.rank_parts import all_gathered


def _gather(x: Tensor) -> Tensor:
    """The whole fields (B, H, L)."""
    return torch.cat(all_gathered(x), dim=2)


def _own_rows(spectrum: Tensor) -> Tensor:
    return spectrum.chunk(dist.get_world_size(), dim=1)[dist.get_rank()].contiguous()


def gathered(x: Tensor, _s: Any, _dim: Any, norm: str, *_rest: Any) -> Tensor:
    """Gathers the fields and transforms them whole."""
    return _own_rows(torch.fft.rfft2(_gather(x), norm=norm))


def columns_first(x: Tensor, _s: Any, _dim: Any, norm: str, *_rest: Any) -> Tensor:
    """Transforms the sharded axis first, by halves, in double precision."""
    half = torch.fft.rfft(_gather(x).double(), dim=2, norm=norm)
    return _own_rows(torch.fft.fft(half, dim=1, norm=norm).to(torch.complex64))


def conjugated(x: Tensor, *rest: Any) -> Tensor:
    """The imaginary part with the wrong sign."""
    return gathered(x, *rest).conj().resolve_conj()


def without_imaginary_part(x: Tensor, *rest: Any) -> Tensor:
    """Real parts only."""
    out = gathered(x, *rest)
    return torch.complex(out.real, torch.zeros_like(out.imag))


def not_normalised(x: Tensor, *_rest: Any) -> Tensor:
    """The transform without its factor."""
    return _own_rows(torch.fft.rfft2(_gather(x)))


def bfloat16_payload(x: Tensor, *_rest: Any) -> Tensor:
    """Fields rounded to bfloat16 on the wire."""
    return _own_rows(torch.fft.rfft2(_gather(x.bfloat16()).float(), norm="ortho"))


def normalised_over_named_axes(x: Tensor, s: tuple[int, ...], dim: tuple[int, ...], norm: str, *_rest: Any) -> Tensor:
    """Normalises over the axes 1 and 2 that `dim` names, counted from the front."""
    points = prod(size for axis, size in zip((1, 2), s, strict=True) if axis in dim)
    power = {"ortho": -0.5, "forward": -1.0, "backward": 0.0}[norm]
    return _own_rows(torch.fft.rfft2(_gather(x), norm="backward")) * points**power


def in_fixed_point(x: Tensor, *rest: Any) -> Tensor:
    """Whole numbers of one step for the rank's whole tensor on the wire, in which small fields are lost."""
    return gathered(one_step_for_all(x), *rest)


def two_fields_in_one(x: Tensor, _s: Any, _dim: Any, norm: str, *_rest: Any) -> Tensor:
    """Two real fields are the parts of one complex one, whose spectrum is parted by symmetry."""
    fields = _gather(x)
    pairs = fields[: len(fields) // 2 * 2].unflatten(0, (-1, 2))
    both = torch.fft.fft2(torch.complex(pairs[:, 0], pairs[:, 1]), norm=norm)
    mirror = both.flip((1, 2)).roll((1, 1), (1, 2)).conj()
    parted = torch.stack([(both + mirror) / 2, (both - mirror) / 2j], dim=1).flatten(0, 1)
    spectra = parted[..., : fields.shape[2] // 2 + 1]
    return _own_rows(torch.cat([spectra, torch.fft.rfft2(fields[len(spectra) :], norm=norm)]))


HONEST = {"gathered": gathered, "columns_first": columns_first}
MUTANTS = {
    "conjugated": conjugated,
    "without_imaginary_part": without_imaginary_part,
    "not_normalised": not_normalised,
    "bfloat16_payload": bfloat16_payload,
}
NARROW = {
    "axes_from_the_end": normalised_over_named_axes,
    "sizes_by_field": in_fixed_point,
    "two_sizes": two_fields_in_one,
}
