"""A first program for every problem and backend: our own templates with the problem's signature filled in."""

from functools import cache

from django.template.loader import render_to_string
from django.utils.html import json_script
from django.utils.safestring import SafeString

from evaluator.contract import Backend
from problems import registry
from problems.spec.schema import ArgumentKind, Problem


@cache
def starters(slug: str) -> dict[str, str]:
    """The starter of every backend for the problem `slug`.

    The one for `pytorch` is the reference itself: correct, and the program to beat.
    """
    problem = registry.get(slug)
    context = {
        "problem": problem,
        "parameters": ", ".join(problem.parameter_names),
        "header": problem.signature,
        "tensors": [argument.name for argument in problem.arguments if argument.kind is ArgumentKind.TENSOR],
        "outputs": _outputs(problem),
        "reference": registry.reference_source(slug).rstrip(),
    }
    # Templates of source code must not be escaped as HTML: they end up in a text field or in JSON.
    return {
        backend.value: render_to_string(f"starters/{backend.value}.py.txt", context).strip() + "\n"
        for backend in Backend
    }


@cache
def starters_script(slug: str) -> SafeString:
    """The element `starters` of the submit page of the problem `slug`: the same, for its script."""
    return json_script(starters(slug), "starters")


def _outputs(problem: Problem) -> str:
    return ", ".join(
        f"{output.name} [{' x '.join(str(side) for side in output.shape)}] {output.placement.value}"
        for output in problem.outputs
    )
