"""How near honest programs come to the bounds: a task that every rank runs, for many calls."""

from dataclasses import dataclass, fields

import torch.distributed as dist

from evaluator.oracle.near_call import NearCall
from problems.harness.calibration import honest_programs
from problems.harness.implementation import load
from problems.harness.trials import REFERENCE, Trial, call_of
from problems.inputs.values import Call
from problems.spec.schema import SizeName


@dataclass(frozen=True, kw_only=True)
class Margin:
    """The part of its bounds that an output used: of the element-wise one, and of the rms one where there is one."""

    program: str
    output: str
    element: float
    rms: float


def margins(slug: str, size: SizeName, key: bytes, index: int) -> list[Margin]:
    """What the reference and every honest variant leave of the bounds on this rank, in call number `index`.

    Every third call differs from the one before it in a few elements only, as some of the judge's do.
    """
    implementation = load(slug)
    trial = Trial(slug=slug, program=REFERENCE, size=size, key=key)
    call = call_of(trial, implementation, rank=dist.get_rank(), world_size=dist.get_world_size())
    known = {field.name: getattr(call, field.name) for field in fields(Call)} | {"index": index}
    call = NearCall(**known, base=index - 1) if index % 3 == 2 else Call(**known)
    expected = implementation.expected(call)
    found = []
    for program in honest_programs(implementation):
        variant = implementation.honest.get(program.partition(":")[2], implementation.solution)
        comparisons = implementation.check(call, implementation.run(variant, call), expected)
        for output, comparison in zip(implementation.problem.outputs, comparisons, strict=True):
            share = comparison.rms_error / output.tolerance.rms if output.tolerance.rms else 0.0
            found.append(Margin(program=program, output=output.name, element=comparison.max_error, rms=share))
    return found
