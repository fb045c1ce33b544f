"""The task prompt of a problem, assembled under a version: the text that models get, readable by everybody.

The benchmark asks whether a model finds the fast way, so all versions but one keep back what statements say of it, and
how inputs are drawn. A change of the wording, of the rules or of the examples is a new number. The digest says whether
two prompts are the same, since problems have revisions of their own.
"""

import hashlib
import re
from dataclasses import dataclass
from functools import lru_cache

from django.template.loader import render_to_string

from evaluator.contract import Backend, Mode
from evaluator.hardware import profiles
from evaluator.hardware.machines import machines
from portal.catalog.queries import check_world_size, get_problem, get_profile, size_rows
from portal.core.errors import Refusal
from problems import registry
from problems.spec.schema import Argument, ArgumentKind, Problem


@dataclass(frozen=True)
class Wording:
    """What readers call a version of the prompt, and what it says."""

    title: str
    says: str


VERSION = "pkb-prompt-5"
"""The version that is given where none is asked for."""
ZERO_SHOT = "pkb-prompt-5-zero-shot"
AS_PUBLISHED = "pkb-prompt-5-published"
WITH_HINTS = "pkb-prompt-5-hints"
VERSIONS = {
    VERSION: Wording("one-shot", "What is asked, and a worked example of another problem; not how to make it fast."),
    ZERO_SHOT: Wording("zero-shot", "What is asked, without an example."),
    AS_PUBLISHED: Wording("as published", "Task, topology and reference: no more than the published prompt had."),
    WITH_HINTS: Wording(
        "with hints", "Also how inputs are drawn, what limits a program, what a fast one does, and an example."
    ),
}
"""Runs with each of them are ranked apart."""

_TASK_SECTIONS = frozenset(
    {
        "The chunks",
        "The filters",
        "The formula",
        "The recurrence",
        "Projection of one Gaussian into one camera",
        "Step by step",
        "Tolerance",
        "What is returned",
    }
)
"""Sections of statements that say what is asked, as the text before the first does. All others are hints."""
_SAID_OF_BARE_KINDS = (ArgumentKind.GROUP.value, ArgumentKind.NONE.value)
"""Kinds of arguments of which nothing is drawn, so that what specs say of them is no hint."""

_EXAMPLES = {
    Backend.PYTORCH: ("gemm_allreduce", "allgather"),
    Backend.CUDA: ("allgather", "gemm_allreduce"),
    Backend.TRITON: ("allgather",),
}
"""The problems that we have a worked example of, by backend; the first that is not the task itself is shown."""


@dataclass(frozen=True, kw_only=True)
class Prompt:
    problem: str
    revision: str
    backend: str
    profile: str
    example: str
    """The problem of the worked example; empty without one."""
    text: str
    version: str

    @property
    def digest(self) -> str:
        """SHA-256 of the version, a line break and the text."""
        return hashlib.sha256(f"{self.version}\n{self.text}".encode()).hexdigest()


def name_of(declared: str) -> str:
    """The version of the site's prompts that a run declares; empty where it declares another prompt, or none."""
    return declared if declared in VERSIONS else ""


def prompt_for(slug: str, *, backend: str, profile: str, version: str = VERSION) -> Prompt:
    """The prompt for a problem in a backend on a profile; `version` is one of VERSIONS.

    Raises:
        Refusal: there is no such problem (404), backend or profile, or they do not fit each other.
    """
    problem = get_problem(slug)
    chosen = get_profile(profile)
    check_world_size(problem, chosen, chosen.sizes[Mode.RANKED])
    if backend not in [member.value for member in chosen.backends]:
        judged = ", ".join(member.value for member in chosen.backends)
        message = f"{chosen.name} does not judge this backend."
        raise Refusal("backend", backend, message, f"Choose one of {judged}, or another profile.")
    return _assembled(problem.slug, Backend(backend), chosen.name, version)


@lru_cache(maxsize=256)
def _assembled(slug: str, backend: Backend, profile_name: str, version: str) -> Prompt:
    problem, profile = registry.get(slug), profiles.get(profile_name)
    example_backend, example = _example(slug, backend)
    if version in (ZERO_SHOT, AS_PUBLISHED):
        example = ""
    judged = profile.sizes[Mode.RANKED]
    has_hints = version == WITH_HINTS
    context = {
        "problem": problem,
        "profile": profile,
        "backend": backend.value,
        "sizes": [row for row in size_rows(problem, world_size=profile.world_size) if row.name in judged],
        "has_hints": has_hints,
        "peaks": profile.peaks,
        "arguments": [(argument, values_told(argument, has_hints=has_hints)) for argument in problem.arguments],
        "statement": statement_of(problem, has_hints=has_hints),
        "reference": registry.reference_source(slug).strip(),
        "example": registry.get(example) if example else None,
        "example_backend": example_backend.value,
        "example_source": example and render_to_string(f"prompts/{example}_{example_backend.value}.py.txt").strip(),
        **_machine(profile),
    }
    template = "prompts/as_published.txt" if version == AS_PUBLISHED else "prompts/v5.txt"
    return Prompt(
        problem=slug,
        revision=registry.revision(slug),
        backend=backend.value,
        profile=profile_name,
        example=example,
        text=render_to_string(template, context).strip() + "\n",
        version=version,
    )


def _machine(profile: profiles.Profile) -> dict[str, object]:
    """The figures of one GPU, and how GPUs are joined, as prompts give them."""
    peaks, machine = profile.peaks, machines().get(profile.machine)
    if peaks is None or machine is None:
        return {}
    return {
        "sms": machine.sms,
        "links": machine.links.kind,
        "topology": machine.links.topology,
        "l2_mib": f"{peaks.l2_bytes / 2**20:.0f}",
        "bf16_tflops": f"{peaks.bf16_flops / 1e12:.0f}",
        "memory_tb_s": f"{peaks.memory_bytes_s / 1e12:.2f}",
        "wire_gb_s": f"{peaks.wire_bytes_s / 1e9:.0f}",
    }


def statement_of(problem: Problem, *, has_hints: bool) -> str:
    """What prompts say of the task: the whole statement, or what it asks and which inputs are legal."""
    statement = registry.statement(problem.slug).strip()
    if has_hints:
        return statement
    beginning, *rest = re.split(r"^### (.+)\n", statement, flags=re.MULTILINE)
    sections = zip(rest[::2], rest[1::2], strict=True)
    told = (f"### {title}\n\n{body.strip()}" for title, body in sections if title in _TASK_SECTIONS)
    legal = render_to_string("prompts/legal_inputs.txt", {"problem": problem}).strip()
    return "\n\n".join([beginning.strip(), *told, legal])


def values_told(argument: Argument, *, has_hints: bool) -> str:
    """What prompts say of an argument's values."""
    return argument.values if has_hints or argument.kind.value in _SAID_OF_BARE_KINDS else ""


def _example(slug: str, backend: Backend) -> tuple[Backend, str]:
    """A backend and another problem of which there is a worked example."""
    for candidate in (backend, Backend.CUDA):
        for example in _EXAMPLES.get(candidate, ()):
            if example != slug:
                return candidate, example
    raise AssertionError(f"every backend has an example that is not {slug}")
