"""Compares a rank's outputs with the expected ones: structure first, then values, by the problem's own rules."""

import importlib
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import msgspec
from torch import Tensor

from evaluator.arena.structure import Area
from evaluator.contract import MOST_MAPS_OF_A_RANK, OutputCheck, Verdict
from evaluator.oracle import error_map
from evaluator.oracle.causes import Suspect
from evaluator.oracle.messages import CheckedOutput
from evaluator.oracle.traces import read_output
from problems import registry
from problems.inputs.values import Call
from problems.outputs import checking
from problems.outputs.comparison import Comparison, error_units
from problems.spec.schema import Output, Problem, Regime

LARGEST_ERROR = 1e9
"""Errors are reported up to this many tolerance units; an infinite one has no form in JSON."""


class Examiner:
    """Compares outputs of one problem."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        package = registry.package(problem.slug)
        self._oracle: ModuleType = importlib.import_module(f"{package}.oracle")
        self._make_inputs = importlib.import_module(f"{package}.inputs").make_inputs
        self._named: list[Regime | None] = []

    def expected(self, call: Call) -> tuple[Tensor, ...]:
        """The expected outputs of rank `call.rank`, in the problem's order."""
        outputs: tuple[Tensor, ...] = self._oracle.expected(call)
        return outputs

    def examine(self, call: Call, header: Sequence[dict[str, Any]], area: Area) -> list[CheckedOutput]:
        """Check what a rank returned in `call`: `header` describes it, `area` holds the elements."""
        expected = self.expected(call)
        wrong = self._structure(call, header, expected)
        if wrong:
            return wrong
        return self.judged(call, self._tensors(call, header, area), expected)

    def judged(self, call: Call, actual: Sequence[Tensor], expected: Sequence[Tensor]) -> list[CheckedOutput]:
        """Check the values of a rank's outputs: each wrong one with what it is instead, and with a map."""
        checks = self._values(call, actual, expected)
        wrong = [index for index, check in enumerate(checks) if check.verdict is not None][:MOST_MAPS_OF_A_RANK]
        outputs, causes = self._problem.outputs_in(call.regime), {}
        # What later calls are would say the same, and costs as much as many calls of the oracle.
        if wrong and call.regime not in self._named:
            self._named.append(call.regime)
            suspect = Suspect(
                call=call,
                expected_of=self.expected,
                make_inputs=self._make_inputs,
                outputs=outputs,
                expected=expected,
            )
            causes = suspect.causes(wrong, actual)
        for index in wrong:
            triple = (outputs[index], actual[index], expected[index])
            checks[index] = _explained(checks[index], call, *triple, cause=causes.get(index))
        return checks

    def stale_source(
        self, call: Call, header: Sequence[dict[str, Any]], area: Area, *, earlier: Sequence[Call]
    ) -> int | None:
        """The earlier call whose expected outputs these are; None also where fewer than 8 elements are not zero."""
        for other in earlier:
            expected = self.expected(other)
            if self._structure(other, header, expected) or sum(int(each.bool().sum()) for each in expected) < 8:
                continue
            checks = self._values(other, self._tensors(call, header, area), expected)
            if all(check.verdict is None for check in checks):
                return other.index
        return None

    def _structure(
        self, call: Call, header: Sequence[dict[str, Any]], expected: Sequence[Tensor]
    ) -> list[CheckedOutput]:
        outputs = self._problem.outputs
        message = checking.wrong_number(self._problem, len(header))
        if message is not None:
            return [_misshapen(call, outputs[0], message)]
        checks = []
        for output, entry, right in zip(outputs, header, expected, strict=True):
            message = checking.wrong_form(call, output, entry, right)
            if message is None and entry["start"] < 0:
                message = f"output {output.name!r} did not fit the room for outputs"
            if message is not None:
                checks.append(_misshapen(call, output, message))
        return checks

    def _tensors(self, call: Call, header: Sequence[dict[str, Any]], area: Area) -> list[Tensor]:
        return [read_output(entry, area, device=call.device) for entry in header]

    def _values(self, call: Call, actual: Sequence[Tensor], expected: Sequence[Tensor]) -> list[CheckedOutput]:
        compared = checking.compared(self._problem, self._oracle, call, actual, expected)
        outputs = self._problem.outputs_in(call.regime)
        return [_judged(call, output, found) for output, found in zip(outputs, compared, strict=True)]


def _misshapen(call: Call, output: Output, message: str) -> CheckedOutput:
    nothing = OutputCheck(
        rank=call.rank, output=output.name, elements=0, wrong_elements=0, max_error=0.0, rms_error=0.0
    )
    return CheckedOutput(check=nothing, verdict=Verdict.WRONG_SHAPE, message=message)


def _explained(
    checked: CheckedOutput, call: Call, output: Output, actual: Tensor, expected: Tensor, *, cause: str | None
) -> CheckedOutput:
    """`checked` with what the output is instead as the first sentence, and with a map of its wrong elements.

    A problem with its own comparison may count other elements as wrong; then there is no map.
    """
    message, drawn = checked.message, None
    if cause is not None:
        message = f"output {output.name!r} {cause}. {message.replace(f'output {output.name!r}', 'It', 1)}"
    if checked.check.wrong_elements and actual.shape == expected.shape:
        units = error_units(output, actual, expected)
        drawn = error_map.draw(units, shape=tuple(actual.shape), world_size=call.world_size, is_known=cause is not None)
    if drawn is not None and sum(map(sum, drawn.counts)) == checked.check.wrong_elements:
        message += f"; the largest error is at {list(drawn.largest_at)}. The wrong elements lie {drawn.sentence}"
        return msgspec.structs.replace(checked, error_map=drawn, message=message)
    return msgspec.structs.replace(checked, message=message)


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


def _judged(call: Call, output: Output, found: Comparison) -> CheckedOutput:
    verdict, message = None, ""
    if found.nonfinite:
        verdict = Verdict.NOT_FINITE
        message = (
            f"output {output.name!r} has {found.nonfinite} of {found.elements} elements that are NaN or infinite "
            f"where finite values are expected, the first at {list(found.first_nonfinite or ())}"
        )
    elif not found.passed:
        verdict = Verdict.WRONG_RESULT
        message = f"output {output.name!r} has {found.remark or _what_is_wrong(output, found)}"
    check = OutputCheck(
        rank=call.rank,
        output=output.name,
        elements=found.elements,
        wrong_elements=found.wrong_elements,
        extreme_elements=found.extreme_elements,
        max_error=min(found.max_error, LARGEST_ERROR),
        rms_error=min(found.rms_error, LARGEST_ERROR),
        first_wrong=found.first_wrong,
    )
    return CheckedOutput(check=check, verdict=verdict, message=message)
