"""Why an output is wrong: what it equals instead, which a common mistake would give.

A *hypothesis* is another tensor and what the output is if it equals that. It holds if it leaves a hundredth of the
squared error over the elements that are *off*: by more than a quarter of what the tolerance allows. So a hit explains
the whole error, and rounding within a wide tolerance neither makes nor hides one. An exact output has to be equal.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import torch
from torch import Tensor

from problems.inputs.values import Arguments, Call
from problems.outputs.comparison import error_units
from problems.spec.schema import Output

OFF = 0.25
"""Elements further off than this share of their limit count as off: honest sums rarely are."""

_LIKE, _FEW, _FEW_LIKE = 0.1, 64, 1e-3
"""The rms that a hypothesis leaves, as a share of the rms error; of few elements also as a share of its own rms."""

_MOST_ELEMENTS, _MOST_PAIRS, _LIMIT_S = 40_000_000, 1 << 24, 3.0

_ROUNDED, _EVEN = 0.06, 0.15
"""The most that rounding changes, of the rms of what is right, and the least median of the changes, of their rms."""

_ODD = (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError)
"""An oracle need not take inputs that no call has, nor is there always memory: then the cause stays unknown."""

_NOTHING, _LEAST_IN_A_GROUP = 2.0**-20, 3

Named = tuple[str, Tensor]
"""What an output is, as the end of "output 'out' ...", and the tensor that it equals then."""


@dataclass(frozen=True, kw_only=True)
class _Altered(Call):
    """A call in which ranks that are not `kept` have next to zero, and `stand_ins` hold peers' shares."""

    kept: tuple[int, ...]
    stand_ins: tuple[int, ...]

    def at_rank(self, rank: int) -> Self:
        """The call as the rank meets it that stands in for `rank`."""
        return replace(self, rank=self.stand_ins[rank])


def _of_kept(draw: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """As `draw`, a method of `Call`, with next to nothing for a rank that is not kept: zeros have no norm."""

    def drawn(self: _Altered, name: str, symbols: Sequence[str | int], **options: Any) -> Tensor:
        values = draw(self, name, symbols, **options)
        return values if options.get("shared") or self.rank in self.kept else values * _NOTHING

    return drawn


for _kind in ("normal", "long_tailed", "uniform"):
    setattr(_Altered, _kind, _of_kept(getattr(Call, _kind)))


@dataclass(frozen=True, kw_only=True)
class Suspect:
    """The wrong outputs of one rank in one call, and what gives other tensors to compare them with.

    Attributes:
        expected_of: the oracle; the expected outputs of the rank of a call.
    """

    call: Call
    expected_of: Callable[[Call], Sequence[Tensor]]
    make_inputs: Callable[[Call], Arguments]
    outputs: Sequence[Output]
    expected: Sequence[Tensor]
    end: float = field(default_factory=lambda: time.thread_time() + _LIMIT_S)

    def causes(self, wrong: Sequence[int], actual: Sequence[Tensor]) -> dict[int, str]:
        """What the first of the outputs numbered `wrong` is for which it is known, in words that go on from its name.

        The others mostly are the same.
        """
        for index in wrong:
            cause = self._cause(index, actual[index])
            if cause is not None:
                return {index: cause}
        return {}

    def _cause(self, index: int, actual: Tensor) -> str | None:
        if actual.shape != self.expected[index].shape or not 0 < actual.numel() <= _MOST_ELEMENTS:
            return None
        with suppress(*_ODD):
            wrong = _Field(self.outputs[index], actual, self.expected[index])
            if not wrong.off.any() or not wrong.actual.isfinite().all() or not wrong.expected.isfinite().all():
                return None
            with suppress(*_ODD):
                for words, other in self._hypotheses(index, wrong):
                    if wrong.is_like(other):
                        is_all = float((wrong.actual - other).norm()) <= wrong.most_left
                        return words if is_all else f"{words} where it is wrong"
                    if time.thread_time() > self.end:
                        break
            return wrong.rounded()
        return None

    def _hypotheses(self, index: int, wrong: "_Field") -> Iterator[Named]:
        yield from wrong.constant()
        yield from self._arguments(wrong)
        for place, output in enumerate(self.outputs):
            if place != index:
                yield f"is what output {output.name!r} has to be", _real(self.expected[place])
        of_ranks = [
            wrong.expected if rank == self.call.rank else self._outputs(self.call.at_rank(rank), index)
            for rank in range(self.call.world_size)
        ]
        for rank in self._peers:
            yield f"is what rank {rank} has to return", of_ranks[rank]
        yield from wrong.scaled(self.call.world_size)
        yield from wrong.moved(self.call.world_size)
        yield from wrong.shuffled(of_ranks)
        if type(self.call) is Call:
            yield from self._shares(index, wrong)
        yield from wrong.graded()

    @property
    def _peers(self) -> list[int]:
        return [rank for rank in range(self.call.world_size) if rank != self.call.rank]

    def _outputs(self, call: Call, index: int) -> Tensor:
        return _real(self.expected_of(call)[index])

    def _arguments(self, wrong: "_Field") -> Iterator[Named]:
        """This rank's tensors and their parts, then its peers'."""
        for rank in (self.call.rank, *self._peers):
            whose = "" if rank == self.call.rank else f"rank {rank}'s "
            for name, value in self.make_inputs(self.call.at_rank(rank)).items():
                if not isinstance(value, Tensor) or value.is_sparse:
                    continue
                yield f"is {whose}argument {name!r} unchanged", _real(value)
                if value.dim() and value.numel() == wrong.size * self.call.world_size and len(value):
                    for place, part in enumerate(value.chunk(self.call.world_size)):
                        if part.numel() == wrong.size:
                            words = f"is part {place} of {whose}argument {name!r} unchanged"
                            yield words, _real(part).reshape(wrong.actual.shape)

    def _shares(self, index: int, wrong: "_Field") -> Iterator[Named]:
        """What comes of other ranks' shares: some missing, repeated, weighted otherwise, or in another order."""
        own, everyone = self.call.rank, tuple(range(self.call.world_size))

        def altered(kept: Sequence[int] = everyone, stand_ins: Sequence[int] = everyone) -> Tensor:
            known = {known.name: getattr(self.call, known.name) for known in fields(Call)}
            return self._outputs(_Altered(**known, kept=tuple(kept), stand_ins=tuple(stand_ins)), index)

        nothing_else = "nothing of other ranks is in it"
        parts = [altered(kept=[rank]) for rank in everyone]
        if all(part.shape == wrong.actual.shape for part in parts) and wrong.is_sum(parts):
            stacked, solved = torch.stack(parts), wrong.weights(parts)
            weighed, weights = torch.tensordot(solved, stacked, 1), solved.tolist()
            there = [rank for rank in everyone if abs(weights[rank]) > _LIKE / 2]
            if there == [own]:
                times = "alone" if abs(weights[own] - 1) < _LIKE else f"times {weights[own]:.3g}"
                words = f"is this rank's own share {times}: {nothing_else}"
            elif len({round(weights[rank], 1) for rank in there}) == 1:
                missing = _listed([rank for rank in everyone if rank not in there])
                words = f"is the sum over ranks {_listed(there)} alone: the share of {missing} is missing"
            else:
                words = f"adds the ranks' shares with the weights {_listed([f'{weight:.2g}' for weight in weights])}"
            yield words, weighed
            for what, reduced in (("maximum", torch.amax), ("minimum", torch.amin), ("product", torch.prod)):
                yield f"is the {what} over ranks where their sum is wanted", reduced(stacked, 0)
        like_own = altered(stand_ins=[own] * len(everyone))
        yield f"is right if all ranks held what this rank holds: {nothing_else}", like_own
        yield f"is right if all other ranks held zeros: {nothing_else}", altered(kept=[own])
        for rank in everyone:
            without = [other_rank for other_rank in everyone if other_rank != rank]
            yield f"is right without the share of rank {rank}", altered(kept=without)
        rotated = [[(rank + step) % len(everyone) for rank in everyone] for step in everyone[1:]]
        for order in (*rotated, everyone[::-1]):
            yield f"takes the ranks' shares in the order {_listed(order)}", altered(stand_ins=order)


class _Field:
    """A wrong output beside the expected one, both in float64."""

    def __init__(self, output: Output, actual: Tensor, expected: Tensor) -> None:
        is_exact = output.tolerance.is_exact
        self.actual, self.expected = _real(actual), _real(expected.to(actual.dtype) if is_exact else expected)
        parts = (torch.view_as_real(each.resolve_conj()) if each.is_complex() else each for each in (actual, expected))
        units = torch.cat([block for _, block in error_units(output, *parts)])
        self.off = units.reshape(self.actual.shape) > OFF
        self.size = self.actual.numel()
        self._number = int(self.off.sum())
        self._error = self._norm(self.actual - self.expected)
        self.most_left = 0.0 if is_exact else _LIKE * self._error
        self._is_float = actual.dtype.is_floating_point
        self._few_like = max(_FEW_LIKE, 2 * torch.finfo(actual.dtype).eps) if self._is_float else 0.0

    def _norm(self, values: Tensor) -> float:
        return float(torch.where(self.off, values, 0.0).norm())

    def is_like(self, other: Tensor) -> bool:
        """Whether the output is `other` where it is off."""
        if other.shape != self.actual.shape or (self._number < _FEW / 8 and self._few_like != _FEW_LIKE):
            return False  # so few numbers are like something by chance
        left = self._norm(self.actual - other)  # NaN is like nothing
        return left <= self.most_left and (self._number >= _FEW or left <= self._few_like * self._norm(other))

    def is_sum(self, parts: Sequence[Tensor]) -> bool:
        """Whether the expected output is the sum of `parts`, none of which is nothing."""
        left = (torch.stack(tuple(parts)).sum(dim=0) - self.expected).norm()
        least = 1e-3 * self.expected.norm()
        return bool(left <= least) and all(bool(part.norm() > least) for part in parts)

    def weights(self, parts: Sequence[Tensor]) -> Tensor:
        """The weights with which the sum of `parts` comes nearest to the output where it is off."""
        matrix = torch.stack([part[self.off] for part in parts])
        solved: Tensor = torch.linalg.pinv(matrix @ matrix.T) @ (matrix @ self.actual[self.off])
        return solved

    def constant(self) -> Iterator[Named]:
        value = float(self.actual[self.off].mean())
        if not value or self._number >= _FEW / 8:
            words = f"is {value:.4g} in every element" if value else "is zero"
            yield words, torch.full_like(self.actual, value)

    def scaled(self, world_size: int) -> Iterator[Named]:
        """The expected output times a number."""
        right = self.expected[self.off]
        factor = float(self.actual[self.off] @ right / (right @ right).clamp(min=1e-300))
        are_few = self._number < _FEW / 8  # any number is a multiple of another
        near = _FEW_LIKE if are_few else 0.02
        known = ""
        if math.isclose(factor, world_size, rel_tol=near):
            known = ", the world size: a sum where a mean is wanted, or a share counted once per rank"
        elif math.isclose(factor, 1 / world_size, rel_tol=near):
            known = ", one over the world size: a mean where a sum is wanted"
        if self._is_float and (known or not are_few):
            yield f"is the expected one times {factor:.4g}{known}", self.expected * factor

    def moved(self, world_size: int) -> Iterator[Named]:
        """The expected output's elements at other places."""
        right = self.expected
        if right.dim() > 1:
            yield "is the transpose of the expected one", right.mT.reshape(right.shape)
        for dim, extent in enumerate(right.shape):
            if world_size > 1 and extent and extent % world_size == 0:
                yield from self._in_other_order(dim, world_size)
            for step in (1, -1):
                yield f"is the expected one shifted by {step} along dimension {dim}", right.roll(step, dim)

    def _in_other_order(self, dim: int, count: int) -> Iterator[Named]:
        right, along = self.expected, f"along dimension {dim}"
        parts = torch.stack(right.chunk(count, dim))
        order = [int((parts - own).flatten(1).norm(dim=1).argmin()) for own in self.actual.chunk(count, dim)]
        words = f"has its {count} parts {along} in the order {_listed(order)}"
        yield words, torch.cat([parts[at] for at in order], dim)
        for inner, outer in ((-1, count), (count, -1)):
            words = f"has its {count} parts {along} interleaved, or taken apart"
            yield words, right.unflatten(dim, (inner, outer)).transpose(dim, dim + 1).flatten(dim, dim + 1)

    def shuffled(self, of_ranks: Sequence[Tensor]) -> Iterator[Named]:
        """Rows or columns of the ranks' expected outputs at other places."""
        for what, axis in (("row", -1), ("column", 0)):
            if self.actual.dim() < 2 or any(each.dim() != self.actual.dim() for each in of_ranks):
                return
            flat = (each.reshape(-1, max(1, each.shape[-1])) for each in (self.actual, *of_ranks))
            rows, *known = (each if axis else each.T.contiguous() for each in flat)
            is_wide = rows.shape[1] >= _FEW / 8 and len({each.shape[1] for each in (rows, *known)}) == 1
            if is_wide and len(rows) * sum(map(len, known)) <= _MOST_PAIRS:
                every = torch.cat(known)
                nearest = every[torch.cdist(rows, every).argmin(dim=1)]
                back = nearest.reshape(self.actual.shape) if axis else nearest.T.reshape(self.actual.shape)
                yield f"has right {what}s at wrong places: each is expected elsewhere, or at another rank", back

    def graded(self) -> Iterator[Named]:
        """The expected output with a factor, or a number added, per row or per index of one dimension."""
        axes = range(self.actual.dim())
        kept = [("row", set(axes[:-1])), *((f"index of dimension {axis}", {axis}) for axis in axes)]
        for what, keep in kept:
            over = [axis for axis in axes if axis not in keep]
            if math.prod(self.actual.shape[axis] for axis in over) < _LEAST_IN_A_GROUP:
                continue
            squares = self.expected.square().sum(dim=over, keepdim=True).clamp(min=1e-300)
            factors = (self.actual * self.expected).sum(dim=over, keepdim=True) / squares
            yield f"is the expected one times a factor of its own for every {what}", self.expected * factors
            added = (self.actual - self.expected).mean(dim=over, keepdim=True)
            yield f"is the expected one plus a number of its own for every {what}", self.expected + added

    def rounded(self) -> str | None:
        """That the output is the expected one in fewer bits: small errors all over, which say nothing of the values."""
        error, norm = (self.actual - self.expected).flatten(), self.expected.norm()
        size = float(error.norm() / norm)
        lean = float(error @ self.expected.flatten() / norm.square())
        is_even = bool(error.abs().median() > _EVEN * error.norm() / math.sqrt(self.size))
        if self._is_float and self.size >= _FEW and is_even and 0 < size <= _ROUNDED and abs(lean) < _LIKE * size:
            return (
                f"is the expected one to about {max(1, round(-math.log2(size)))} bits: rounded to too few, or otherwise"
            )
        return None


def _real(tensor: Tensor) -> Tensor:
    """`tensor` in float64, a complex one as pairs of numbers."""
    return (torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor).double()


def _listed(items: Sequence[object]) -> str:
    return ", ".join(map(str, items))
