"""Programs that must pass and programs that must fail."""

from math import prod
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from problems.families.fields import one_step_for_all
from problems.families.rank_parts import all_gathered

Size = tuple[int, int] | None


def _size(x: Tensor, s: Size) -> tuple[int, int]:
    """Rows and columns of the fields; an even number of columns where it is not given."""
    return s or (x.shape[-2] * dist.get_world_size(), 2 * (x.shape[-1] - 1))


def _gather(x: Tensor) -> Tensor:
    """The whole half spectra (B, C, H, K)."""
    own = torch.view_as_real(x).contiguous()
    return torch.cat([torch.view_as_complex(part) for part in all_gathered(own)], dim=-2)


def _own_columns(fields: Tensor) -> Tensor:
    return fields.chunk(dist.get_world_size(), dim=-1)[dist.get_rank()].contiguous()


def gathered(x: Tensor, s: Size, _dim: Any, norm: str, *_rest: Any) -> Tensor:
    """Gathers the spectra and transforms them whole."""
    return _own_columns(torch.fft.irfft2(_gather(x), s=_size(x, s), norm=norm))


def mirrored(x: Tensor, s: Size, _dim: Any, norm: str, *_rest: Any) -> Tensor:
    """Builds the redundant half from the mirrored rows, then a full complex transform in double precision."""
    half = _gather(x).to(torch.complex128)
    rows, columns = _size(x, s)
    inner = half[..., 1 : columns - half.shape[-1] + 1].flip(-1).conj()
    tail = inner[..., [(rows - row) % rows for row in range(rows)], :]
    full = torch.cat([half, tail], dim=-1)
    return _own_columns(torch.fft.ifft2(full, norm=norm).real.float())


def real_rows_first(x: Tensor, s: Size, _dim: Any, norm: str, *_rest: Any) -> Tensor:
    """The other axis first, then one real transform per row."""
    columns = torch.fft.ifft(_gather(x), dim=-2, norm=norm)
    return _own_columns(torch.fft.irfft(columns, n=_size(x, s)[1], dim=-1, norm=norm))


def without_mirror(x: Tensor, s: tuple[int, int], *_rest: Any) -> Tensor:
    """The redundant half taken for zero."""
    return _own_columns(torch.fft.ifft2(_gather(x), s=s, norm="ortho").real)


def every_column_doubled(x: Tensor, s: tuple[int, int], *rest: Any) -> Tensor:
    """The first and the last column, which stand for themselves, counted twice as well."""
    return without_mirror(x, s, *rest) * 2


def rows_not_mirrored(x: Tensor, s: tuple[int, int], *_rest: Any) -> Tensor:
    """The redundant half is the conjugate of the same rows."""
    half = _gather(x)
    tail = half[..., 1 : s[1] - half.shape[-1] + 1].flip(-1).conj()
    return _own_columns(torch.fft.ifft2(torch.cat([half, tail], dim=-1), norm="ortho").real)


def forward_transform(x: Tensor, s: tuple[int, int], *rest: Any) -> Tensor:
    """The wrong sign in the exponent."""
    return gathered(x.conj().resolve_conj(), s, *rest)


def not_normalised(x: Tensor, s: tuple[int, int], *_rest: Any) -> Tensor:
    """Divided by the number of points instead of its root."""
    return _own_columns(torch.fft.irfft2(_gather(x), s=s))


def bfloat16_payload(x: Tensor, s: tuple[int, int], *rest: Any) -> Tensor:
    """Spectra rounded to bfloat16 on the wire."""
    return gathered(torch.view_as_complex(torch.view_as_real(x).bfloat16().float()), s, *rest)


def normalised_over_named_axes(x: Tensor, s: Size, dim: tuple[int, ...], norm: str, *_rest: Any) -> Tensor:
    """Normalises over the last two axes that `dim` names, counted from the end."""
    points = prod(size for axis, size in zip((-2, -1), _size(x, s), strict=True) if axis in dim)
    power = {"ortho": -0.5, "forward": 0.0, "backward": -1.0}[norm]
    return _own_columns(torch.fft.irfft2(_gather(x), s=_size(x, s), norm="forward")) * points**power


def in_fixed_point(x: Tensor, *rest: Any) -> Tensor:
    """Whole numbers of one step for the rank's whole tensor on the wire, in which small fields are lost."""
    return gathered(one_step_for_all(x), *rest)


def two_fields_in_one(x: Tensor, s: tuple[int, int], _dim: Any, norm: str, *_rest: Any) -> Tensor:
    """Two spectra of an even number are transformed together, one times i: the fields are the two parts."""
    half = _gather(x).flatten(0, 1)
    inner = half[..., 1 : s[1] - half.shape[-1] + 1].flip(-1).conj()
    whole = torch.cat([half, inner.flip(-2).roll(1, -2)], dim=-1)
    pairs = whole.unflatten(0, (-1, 2))
    both = torch.fft.ifft2(pairs[:, 0] + 1j * pairs[:, 1], norm=norm)
    return _own_columns(torch.stack([both.real, both.imag], dim=1).view(*x.shape[:2], *s))


HONEST = {"gathered": gathered, "mirrored": mirrored, "real_rows_first": real_rows_first}
MUTANTS = {
    "without_mirror": without_mirror,
    "every_column_doubled": every_column_doubled,
    "rows_not_mirrored": rows_not_mirrored,
    "forward_transform": forward_transform,
    "not_normalised": not_normalised,
    "bfloat16_payload": bfloat16_payload,
}
NARROW = {
    "axes_from_the_front": normalised_over_named_axes,
    "sizes_by_field": in_fixed_point,
    "two_sizes": two_fields_in_one,
}
