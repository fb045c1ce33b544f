"""The task prompt of a problem, assembled under a version: the text that models get, readable by everybody.

There are two versions: the task alone, and the task with hints. The benchmark asks whether a model finds the fast way,
so the first keeps back what statements say of it, and how inputs are drawn. A change of the wording, of the rules or of
the examples is a new version. The digest says whether two prompts are the same, since problems have revisions of their
own.
"""

import hashlib
import re
from dataclasses import dataclass
from functools import lru_cache

from django.template.loader import render_to_string

from evaluator.contract import Backend, Mode
from evaluator.hardware import profiles
from evaluator.hardware.profiles import Profile
from portal.catalog.costs import size_rows
from portal.catalog.queries import check_world_size, get_problem, get_profile
from portal.core.errors import Refusal
from problems import registry
from problems.spec.schema import Argument, ArgumentKind, Problem

VERSION = "pkb-prompt-3"
"""The version that is given where none is asked for: the task alone."""
WITH_HINTS = "pkb-prompt-3-hints"
VERSIONS = (VERSION, WITH_HINTS)

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

_COMPILE = (
    "`from utils.cuda_helpers import compile_cuda_extension`: `compile_cuda_extension(name, cuda_src, "
    "extra_cuda_cflags=None, extra_include_paths=None, extra_ldflags=None)` builds CUDA C++ once per node and returns "
    "the loaded module on every rank."
)
_SYMMETRIC = (
    "`import torch.distributed._symmetric_memory as symm_mem`: `symm_mem.empty(...)`, "
    "`symm_mem.rendezvous(tensor, group)`; the handle gives every peer's buffer."
)
_TRITON = (
    "`from utils.triton_utils import get_tid, get_ntid, get_flat_tid, get_flat_bid, sync_threads, send_signal, "
    "wait_signal, blockwise_barrier`: device functions for Triton over the signal pads of symmetric memory."
)
_KITTENS = (
    "`from utils.parallelkittens_runtime import get_or_create_parallel_tensor, create_parallel_tensor, "
    "get_or_create_barrier`: tensors and barriers that ParallelKittens kernels address."
)
_NO_COLLECTIVES = (
    "Library collectives of torch.distributed may set things up, but may not move the problem's data inside `solution`."
)
_BACKEND_RULES = {
    Backend.PYTORCH: "Plain PyTorch; every call of torch.distributed is allowed.",
    Backend.CUDA: f"CUDA C++ compiled from the file. {_NO_COLLECTIVES}",
    Backend.TRITON: f"Triton kernels. {_NO_COLLECTIVES}",
    Backend.PARALLELKITTENS: f"ParallelKittens kernels compiled from the file. {_NO_COLLECTIVES}",
    Backend.NVSHMEM: f"NVSHMEM, on the host or in device code. {_NO_COLLECTIVES}",
    Backend.NCCL_DEVICE: f"NCCL's device-side API (LSA over NVLink). {_NO_COLLECTIVES}",
}
_HELPERS = {
    Backend.PYTORCH: (_SYMMETRIC,),
    Backend.CUDA: (_COMPILE, _SYMMETRIC),
    Backend.TRITON: (_TRITON, _SYMMETRIC),
    Backend.PARALLELKITTENS: (_KITTENS, _COMPILE),
    Backend.NVSHMEM: (_COMPILE, _SYMMETRIC),
    Backend.NCCL_DEVICE: (_COMPILE, _SYMMETRIC),
}
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
    judged = profile.sizes[Mode.RANKED]
    peaks = profile.peaks
    has_hints = version == WITH_HINTS
    context = {
        "problem": problem,
        "profile": profile,
        "backend": backend.value,
        "backend_rule": _BACKEND_RULES[backend],
        "helpers": "\n".join(f"- {helper}" for helper in _HELPERS[backend]) if profile.gpu else "",
        "primitives": _primitives(profile, backend),
        "sizes": [row for row in size_rows(problem, world_size=profile.world_size) if row.name in judged],
        "has_hints": has_hints,
        "arguments": [(argument, values_told(argument, has_hints=has_hints)) for argument in problem.arguments],
        "statement": statement_of(problem, has_hints=has_hints),
        "reference": registry.reference_source(slug).strip(),
        "example": registry.get(example),
        "example_backend": example_backend.value,
        "example_source": render_to_string(f"prompts/{example}_{example_backend.value}.py.txt").strip(),
        "bf16_tflops": f"{peaks.bf16_flops / 1e12:.0f}" if peaks else "",
        "memory_tb_s": f"{peaks.memory_bytes_s / 1e12:.2f}" if peaks else "",
        "wire_gb_s": f"{peaks.wire_bytes_s / 1e9:.0f}" if peaks else "",
    }
    return Prompt(
        problem=slug,
        revision=registry.revision(slug),
        backend=backend.value,
        profile=profile_name,
        example=example,
        text=render_to_string("prompts/v3.txt", context).strip() + "\n",
        version=version,
    )


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
    for candidate in (backend, Backend.CUDA):
        for example in _EXAMPLES.get(candidate, ()):
            if example != slug:
                return candidate, example
    raise AssertionError(f"every backend has an example that is not {slug}")


def _primitives(profile: Profile, backend: Backend) -> list[str]:
    """The primitives available on the profile, in the site's terms."""
    if profile.gpu is None:
        return ["collectives and point-to-point exchanges of torch.distributed over gloo"]
    found = [
        "copy_engine (peer copies by cudaMemcpyAsync or tensor.copy_ between symmetric buffers)",
        "sm_load_store (loads and stores to peers' symmetric memory from a kernel)",
        "tma (bulk copies to and from peers' memory)",
    ]
    if profile.multicast:
        found.append("nvls (multimem reductions and multicast stores)")
    if backend is Backend.NVSHMEM:
        found.append("nvshmem")
    if backend is Backend.NCCL_DEVICE:
        found.append("nccl_device")
    if backend is Backend.PYTORCH:
        found.append("nccl (library collectives)")
    return found
