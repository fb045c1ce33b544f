"""What of a submission has to be built, and everything that the result depends on."""

import hashlib
import json
import re

from evaluator.contract import Backend, EvaluationRequest
from evaluator.hardware import profiles
from evaluator.hardware.profiles import Profile
from evaluator.host.building import disassembly
from evaluator.host.building.placeholders import Placeholder, placeholders
from evaluator.host.building.toolchain import has_toolchain, own_digest, toolchain, triton_version
from problems import registry

_CALL = "compile_cuda_extension"
_TRITON_KERNEL = re.compile(r"^[ \t]*@(?:triton\.)?jit\b", re.MULTILINE)


def is_needed(request: EvaluationRequest) -> bool:
    """Whether a submission has anything to build ahead, and is judged on GPUs.

    A node without the compiler has already refused the backends that need it. A submission in another backend is then
    not built, even if it names the compiler.
    """
    if profiles.get(request.profile).gpu is None:
        return False
    if request.backend is Backend.PYTORCH and not has_toolchain():
        return False
    return _wants_cuda(request) or _wants_triton(request)


def key(request: EvaluationRequest, profile: Profile) -> str:
    """Equal for two requests where a build of one serves the other."""
    parts = (
        request.source.digest,
        own_digest(),
        toolchain() if _wants_cuda(request) else "",
        triton_version() if _wants_triton(request) else "",
        disassembly.READING,
        json.dumps(kernel_arguments(request, profile)),
        *profiles.architectures(profile),
        str(profile.world_size),
    )
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def kernel_arguments(request: EvaluationRequest, profile: Profile) -> list[tuple[str, list[Placeholder]]]:
    """The arguments that Triton kernels are compiled for, at every size to be judged; shapes without values."""
    if not _wants_triton(request):
        return []
    problem = registry.get(request.problem)
    # Sizes of every mode, so that a later ranked evaluation needs no other build.
    sizes = request.sizes or dict.fromkeys(size for names in profile.sizes.values() for size in names)
    found = (
        (size, placeholders(problem, size, world_size=profile.world_size, dtype=request.input_dtype)) for size in sizes
    )
    return [(size, arguments) for size, arguments in found if arguments is not None]


def _wants_cuda(request: EvaluationRequest) -> bool:
    return any(_CALL in file.text for file in request.source.files)


def _wants_triton(request: EvaluationRequest) -> bool:
    return any(_TRITON_KERNEL.search(file.text) for file in request.source.files) and triton_version() != ""
