"""Comparing an output with the oracle's, by the judge's numerics policy.

An element is right where |x - ref| <= atol * rms(ref) + rtol * |ref| and NaN or infinity stand in the same places;
beside that, the root mean square of all errors has a bound. Where it has one, one element in a million of a large
output may be beyond its limit (problems/outputs/extremes.py): the largest of ever more rounding errors has no bound.

Everything runs in float64 over chunks of rows, so that outputs of gigabytes need only a few hundred megabytes more.
What is right and finite, nearly every output, is told in one look with few passes and one wait for the device; anything
else is looked at again, element by element.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf, prod, sqrt

import torch
from torch import Tensor

from problems.outputs.extremes import furthest, most_extremes
from problems.spec.schema import Output, Scope, Tolerance

_CHUNK_ELEMENTS = 1 << 22
"""Elements compared at a time: about 32 MB per float64 temporary."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """How one rank's output compared with the oracle's.

    Attributes:
        elements: number of elements.
        wrong_elements: elements beyond the tolerance, those of the wrong class (NaN, Inf) included; 0 where all that
            are beyond it are extreme ones that the rule allows.
        extreme_elements: how many of these there are.
        max_error: largest error in units of the tolerance, so 1 is the limit of all but extreme elements; infinite
            where a class is wrong.
        rms_error: root mean square of the errors over elements finite in both, as a multiple of the reference's
            root mean square over the tolerance's scope.
        first_wrong: index of the first wrong element in row-major order, None where there is none.
        nonfinite: elements that are NaN or infinite where the oracle's are not of the same class.
        first_nonfinite: index of the first of these.
        passed: whether nothing is wrong and the rms error is within its bound.
        remark: why it did not pass, where another bound than these decided.
    """

    elements: int
    wrong_elements: int
    extreme_elements: int = 0
    max_error: float
    rms_error: float
    first_wrong: tuple[int, ...] | None
    nonfinite: int
    first_nonfinite: tuple[int, ...] | None
    passed: bool
    remark: str = ""


@dataclass
class _Tally:
    """What the chunks seen so far amount to; positions are flat."""

    wrong: int = 0
    first_wrong: int | None = None
    nonfinite: int = 0
    first_nonfinite: int | None = None
    max_error: float = 0.0
    squared_error: float = 0.0
    compared: int = 0

    def count_wrong(self, mask: Tensor, *, offset: int) -> None:
        """Count the set elements of `mask`, whose first element lies at flat position `offset`."""
        found = int(mask.sum())
        if found and self.first_wrong is None:
            self.first_wrong = offset + int(mask.flatten().int().argmax())
        self.wrong += found

    def count_nonfinite(self, mask: Tensor, *, offset: int) -> None:
        """As `count_wrong`, for elements of the wrong class."""
        found = int(mask.sum())
        if found and self.first_nonfinite is None:
            self.first_nonfinite = offset + int(mask.flatten().int().argmax())
        self.nonfinite += found


def compare_output(output: Output, actual: Tensor, expected: Tensor) -> Comparison:
    """Compare `actual` with `expected` (same shape, same device; any dtypes) by the tolerance of `output`.

    An exact output is compared by value after rounding `expected` to the dtype of `actual`. With scope `row` or
    `field` the root mean square is taken over the finite elements of each; of a complex field, over both its parts.

    Raises:
        ValueError: the shapes differ (the structure of an output is checked before its values).
    """
    if actual.shape != expected.shape:
        raise ValueError(
            f"output {output.name!r} has shape {tuple(actual.shape)}, the oracle has {tuple(expected.shape)}"
        )
    shape, dims_of_field = tuple(actual.shape), 2
    actual, expected = _widened(output.tolerance, actual, expected)
    if expected.is_complex():
        # Real and imaginary parts are elements of their own: an error in either is an error.
        actual, expected = torch.view_as_real(actual.resolve_conj()), torch.view_as_real(expected.resolve_conj())
        shape, dims_of_field = (*shape, 2), 3
    if output.tolerance.scope is Scope.FIELD:
        actual, expected = actual.flatten(-dims_of_field), expected.flatten(-dims_of_field)
    expected = expected.contiguous()
    tally = _tally_right(output.tolerance, actual, expected)
    if tally is None:
        tally = _Tally()
        if output.tolerance.is_exact:
            _tally_exact(tally, actual, expected)
        else:
            _tally_close(tally, output.tolerance, actual, expected)
    return _conclude(tally, output.tolerance, shape)


def _widened(tolerance: Tolerance, actual: Tensor, expected: Tensor) -> tuple[Tensor, Tensor]:
    """Exact outputs in 8-bit floats as float32, which holds each of their values: torch cannot compare these floats."""
    if tolerance.is_exact and actual.is_floating_point() and actual.element_size() == 1:
        return actual.float(), expected.to(actual.dtype).float()
    return actual, expected


def _rows(tensor: Tensor) -> Tensor:
    """`tensor` as a matrix whose rows run along its last dimension."""
    return tensor.reshape(-1, tensor.shape[-1] if tensor.dim() else 1)


def _chunks(actual: Tensor, expected: Tensor) -> Iterator[tuple[int, Tensor, Tensor]]:
    """Blocks of whole rows of both, with the flat position of their first element."""
    if actual.numel() == 0:
        return
    left, right = _rows(actual), _rows(expected)
    width = left.shape[1]
    step = max(1, _CHUNK_ELEMENTS // width)
    for start in range(0, left.shape[0], step):
        yield start * width, left[start : start + step], right[start : start + step]


def _is_other_class(actual: Tensor, expected: Tensor) -> Tensor:
    """Where one is NaN or infinite and the other is not the same."""
    finite = actual.isfinite() & expected.isfinite()
    same = (actual == expected) | (actual.isnan() & expected.isnan())
    return ~(finite | same)


def _tally_right(tolerance: Tolerance, actual: Tensor, expected: Tensor) -> _Tally | None:
    """The tally of a tensor of finite, right elements; None for any other, and where no error at all is allowed."""
    if tolerance.is_exact:
        is_right = all(torch.equal(left, right.to(left.dtype)) for _, left, right in _chunks(actual, expected))
        return _Tally(compared=actual.numel()) if is_right else None
    # NaN and infinity spread into these sums and maxima, and nothing of the kind is taken for right.
    overall = None
    if tolerance.scope is Scope.TENSOR:
        norms = [torch.linalg.vector_norm(right.double()) for _, _, right in _chunks(expected, expected)]
        overall = torch.stack(norms).norm() / sqrt(expected.numel()) if norms else None
    worst, squares = [], []
    for _, left, right in _chunks(actual, expected):
        reference = right.double()
        scale = overall
        if scale is None:
            norms_of_rows = torch.linalg.vector_norm(reference, dim=1, keepdim=True)
            scale = norms_of_rows / sqrt(reference.shape[1])
        error = (left.double() - reference).abs_()
        allowed = reference.abs().mul_(tolerance.rtol).add_(tolerance.atol * scale)
        worst.append((error / allowed).max())
        squares.append((error.square_().sum(dim=1, keepdim=True) / scale.square()).sum())
    if not worst:
        return _Tally()
    max_error, squared_error = torch.stack((torch.stack(worst).max(), torch.stack(squares).sum())).tolist()
    # Comparing with NaN is false.
    if max_error <= 1 and squared_error < inf:
        return _Tally(max_error=max_error, squared_error=squared_error, compared=actual.numel())
    return None


def _tally_exact(tally: _Tally, actual: Tensor, expected: Tensor) -> None:
    for offset, left, unrounded in _chunks(actual, expected):
        right = unrounded.to(left.dtype)
        wrong = ~((left == right) | (left.isnan() & right.isnan()))
        tally.count_wrong(wrong, offset=offset)
        tally.count_nonfinite(wrong & ~left.isfinite(), offset=offset)
        tally.compared += left.numel()
        if bool(wrong.any()):
            tally.max_error = inf
            error = (left.double() - right.double()).nan_to_num(0.0, 0.0, 0.0)
            tally.squared_error += float(error.square().sum())


def _tally_close(tally: _Tally, tolerance: Tolerance, actual: Tensor, expected: Tensor) -> None:
    overall = _rms_of_tensor(expected) if tolerance.scope is Scope.TENSOR else None
    for offset, left, right in _chunks(actual, expected):
        x, reference = left.double(), right.double()
        scale = _row_rms(reference) if overall is None else overall
        other_class = _is_other_class(x, reference)
        finite = x.isfinite() & reference.isfinite()
        error, units = _errors(tolerance, x, reference, scale=scale, finite=finite, other_class=other_class)
        tally.count_wrong(units > 1, offset=offset)
        tally.count_nonfinite(other_class, offset=offset)
        tally.max_error = max(tally.max_error, float(units.max()))
        tally.squared_error += float(torch.where(error == 0, 0.0, error / scale).square().sum())
        tally.compared += int(finite.sum())


def _errors(
    tolerance: Tolerance, x: Tensor, reference: Tensor, *, scale: Tensor, finite: Tensor, other_class: Tensor
) -> tuple[Tensor, Tensor]:
    """Every element's error, and the same in units of what is allowed there; infinite where the class is wrong."""
    error = torch.where(finite, x - reference, 0.0).abs()
    allowed = tolerance.atol * scale + tolerance.rtol * torch.where(finite, reference, 0.0).abs()
    # 0 / 0 is a right element with no allowance; anything else over 0 is infinitely wrong.
    units = torch.where(error == 0, 0.0, error / allowed)
    return error, torch.where(other_class, inf, units)


def error_units(output: Output, actual: Tensor, expected: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Every element's error in units of the tolerance, in blocks of whole rows with their first flat position.

    As `compare_output` sees them; for real outputs only (a complex one yields nothing).
    """
    if actual.is_complex() or expected.is_complex():
        return
    tolerance = output.tolerance
    actual, expected = _widened(tolerance, actual, expected)
    if tolerance.scope is Scope.FIELD:
        actual, expected = actual.flatten(-2), expected.flatten(-2)
    overall = _rms_of_tensor(expected) if tolerance.scope is Scope.TENSOR and not tolerance.is_exact else None
    for offset, left, unrounded in _chunks(actual, expected):
        if tolerance.is_exact:
            right = unrounded.to(left.dtype)
            wrong = ~((left == right) | (left.isnan() & right.isnan()))
            distance = (left.double() - right.double()).abs().nan_to_num(inf, inf, inf)
            yield offset, torch.where(wrong, distance.clamp(min=2.0), 0.0)
            continue
        x, reference = left.double(), unrounded.double()
        scale = _row_rms(reference) if overall is None else overall
        finite = x.isfinite() & reference.isfinite()
        other_class = _is_other_class(x, reference)
        yield offset, _errors(tolerance, x, reference, scale=scale, finite=finite, other_class=other_class)[1]


def _row_rms(rows: Tensor) -> Tensor:
    """Root mean square of each row's finite elements, as a column."""
    finite = rows.isfinite()
    squares = torch.where(finite, rows, 0.0).square().sum(dim=1, keepdim=True)
    return (squares / finite.sum(dim=1, keepdim=True).clamp(min=1)).sqrt()


def _rms_of_tensor(tensor: Tensor) -> Tensor:
    """Root mean square of all finite elements, as a float64 scalar on the tensor's device."""
    squares = torch.zeros((), dtype=torch.float64, device=tensor.device)
    count = torch.zeros((), dtype=torch.int64, device=tensor.device)
    for _, chunk, _ in _chunks(tensor, tensor):
        values = chunk.double()
        finite = values.isfinite()
        squares += torch.where(finite, values, 0.0).square().sum()
        count += finite.sum()
    return (squares / count.clamp(min=1)).sqrt()


def _index(shape: tuple[int, ...], position: int | None) -> tuple[int, ...] | None:
    """The row-major index of a flat position."""
    if position is None:
        return None
    index = []
    for place in range(len(shape)):
        stride = prod(shape[place + 1 :])
        index.append(position // stride)
        position %= stride
    return tuple(index)


def _conclude(tally: _Tally, tolerance: Tolerance, shape: tuple[int, ...]) -> Comparison:
    rms_error = sqrt(tally.squared_error / max(1, tally.compared))
    within_rms = tolerance.rms is None or rms_error <= tolerance.rms
    elements = prod(shape)
    are_allowed = tally.wrong <= most_extremes(tolerance, elements) and tally.max_error <= furthest(elements)
    wrong = 0 if are_allowed else tally.wrong
    return Comparison(
        elements=elements,
        wrong_elements=wrong,
        extreme_elements=tally.wrong - wrong,
        max_error=tally.max_error,
        rms_error=rms_error,
        first_wrong=_index(shape, tally.first_wrong) if wrong else None,
        nonfinite=tally.nonfinite,
        first_nonfinite=_index(shape, tally.first_nonfinite),
        passed=wrong == 0 and within_rms,
    )
