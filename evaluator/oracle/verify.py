"""Compares a rank's outputs with the expected ones: structure first, then values, by the problem's own rules."""

import importlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from evaluator.arena.structure import Area
from evaluator.contract import ErrorMap, Verdict
from evaluator.oracle import error_map
from evaluator.oracle.call_memory import read_output
from problems import registry
from problems.inputs.values import Call
from problems.outputs import checking
from problems.outputs.comparison import Comparison, error_units
from problems.spec.schema import Output, Problem

LARGEST_ERROR = 1e9
"""Errors are reported up to this many tolerance units; an infinite one has no form in JSON."""


_MOST_MAPS = 8
"""How many outputs of one rank get a map: a message to the host has a limit."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """What was found for one output of one rank in one call; `verdict` None means correct."""

    output: str
    elements: int = 0
    wrong_elements: int = 0
    extreme_elements: int = 0
    max_error: float = 0.0
    rms_error: float = 0.0
    first_wrong: tuple[int, ...] | None = None
    verdict: str | None = None
    message: str | None = None
    error_map: ErrorMap | None = None

    def as_message(self) -> dict[str, Any]:
        """This check as JSON."""
        drawn = self.error_map.to_json() if self.error_map is not None else None
        return {**asdict(replace(self, error_map=None)), "error_map": drawn}


class Examiner:
    """Compares outputs of one problem."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._oracle: ModuleType = importlib.import_module(f"{registry.package(problem.slug)}.oracle")

    def expected(self, call: Call) -> tuple[Tensor, ...]:
        """The expected outputs of rank `call.rank`, in the problem's order."""
        outputs: tuple[Tensor, ...] = self._oracle.expected(call)
        return outputs

    def examine(self, call: Call, header: Sequence[dict[str, Any]], area: Area) -> list[Check]:
        """Check what a rank returned in `call`: `header` describes it, `area` holds the elements."""
        expected = self.expected(call)
        wrong = self._structure(call, header, expected)
        if wrong:
            return wrong
        actual = self._tensors(call, header, area)
        checks = self._values(call, actual, expected)
        triples = zip(self._problem.outputs_in(call.regime), actual, expected, strict=True)
        mapped = [index for index, check in enumerate(checks) if check.wrong_elements][:_MOST_MAPS]
        return [
            _mapped(check, call, *triple) if index in mapped else check
            for index, (check, triple) in enumerate(zip(checks, triples, strict=True))
        ]

    def stale_source(
        self, call: Call, header: Sequence[dict[str, Any]], area: Area, *, earlier: Sequence[Call]
    ) -> int | None:
        """The earlier call whose expected outputs these are, or None."""
        for other in earlier:
            expected = self.expected(other)
            if self._structure(other, header, expected):
                continue
            checks = self._values(other, self._tensors(call, header, area), expected)
            if all(check.verdict is None for check in checks):
                return other.index
        return None

    def _structure(self, call: Call, header: Sequence[dict[str, Any]], expected: Sequence[Tensor]) -> list[Check]:
        outputs = self._problem.outputs
        message = checking.wrong_number(self._problem, len(header))
        if message is not None:
            return [Check(output=outputs[0].name, verdict=Verdict.WRONG_SHAPE, message=message)]
        checks = []
        for output, entry, right in zip(outputs, header, expected, strict=True):
            message = checking.wrong_form(call, output, entry, right)
            if message is None and entry["start"] < 0:
                message = f"output {output.name!r} did not fit the room for outputs"
            if message is not None:
                checks.append(Check(output=output.name, verdict=Verdict.WRONG_SHAPE, message=message))
        return checks

    def _tensors(self, call: Call, header: Sequence[dict[str, Any]], area: Area) -> list[Tensor]:
        return [
            read_output(
                area,
                dtype=getattr(torch, entry["dtype"]),
                shape=entry["shape"],
                start=entry["start"],
                device=call.device,
            )
            for entry in header
        ]

    def _values(self, call: Call, actual: Sequence[Tensor], expected: Sequence[Tensor]) -> list[Check]:
        compared = checking.compared(self._problem, self._oracle, call, actual, expected)
        return [_judged(output, found) for output, found in zip(self._problem.outputs, compared, strict=True)]


def _mapped(check: Check, call: Call, output: Output, actual: Tensor, expected: Tensor) -> Check:
    """`check` with a map of its wrong elements.

    A problem with its own comparison may count other elements as wrong; then there is no map.
    """
    if not check.wrong_elements or actual.shape != expected.shape:
        return check
    shape = tuple(actual.shape)
    units = error_units(output, actual, expected)
    drawn = error_map.draw(units, shape=shape, world_size=call.world_size)
    if drawn is None or sum(map(sum, drawn.counts)) != check.wrong_elements:
        return check
    message = (
        f"{check.message}; the largest error is at {list(drawn.largest_at)}. The wrong elements lie {drawn.sentence}"
    )
    return replace(check, error_map=drawn, message=message if check.message else None)


def _what_is_wrong(output: Output, found: Comparison) -> str:
    """Which bound values exceed: that of single elements, or that of all errors together."""
    largest = f"largest error {min(found.max_error, LARGEST_ERROR):.3g} times the limit"
    rms_error, bound = min(found.rms_error, LARGEST_ERROR), output.tolerance.rms
    if not found.wrong_elements and bound is not None and rms_error > bound:
        extremes = f", {found.extreme_elements} beyond it as allowed" if found.extreme_elements else ""
        return (
            f"an rms error of {rms_error:.3g}, and {bound:.3g} is allowed: too much over all {found.elements} elements "
            f"together ({largest}{extremes})"
        )
    first = f", the first at {list(found.first_wrong)}" if found.first_wrong is not None else ""
    return (
        f"{found.wrong_elements} of {found.elements} elements beyond the tolerance ({largest}, rms error "
        f"{rms_error:.3g}){first}"
    )


def _judged(output: Output, found: Comparison) -> Check:
    verdict, message = None, None
    if found.nonfinite:
        verdict = Verdict.NOT_FINITE
        message = (
            f"output {output.name!r} has {found.nonfinite} of {found.elements} elements that are NaN or infinite "
            f"where finite values are expected, the first at {list(found.first_nonfinite or ())}"
        )
    elif not found.passed:
        verdict = Verdict.WRONG_RESULT
        message = f"output {output.name!r} has {_what_is_wrong(output, found)}"
    return Check(
        output=output.name,
        elements=found.elements,
        wrong_elements=found.wrong_elements,
        extreme_elements=found.extreme_elements,
        max_error=min(found.max_error, LARGEST_ERROR),
        rms_error=min(found.rms_error, LARGEST_ERROR),
        first_wrong=found.first_wrong,
        verdict=verdict,
        message=message,
    )
