"""Wrong programs with what the oracle says of their outputs.

`python -m tests.evaluator.wrong_programs` prints the table of docs/measurements/causes.md.
"""

import hashlib
import sys
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor

from evaluator.oracle.verify import Examiner
from problems import registry
from problems.harness.implementation import WrongStructure, load
from problems.harness.ranks import Ranks
from problems.harness.trials import Trial, call_of, outputs_of

WORLD_SIZE, EVERY = 4, 12


def no_communication(tensor: Tensor) -> Tensor:
    """The own matrix."""
    return tensor.clone()


def maximum(tensor: Tensor) -> Tensor:
    """The maximum in place of the sum."""
    out = tensor.clone()
    dist.all_reduce(out, op=dist.ReduceOp.MAX)
    return out


def product(tensor: Tensor) -> Tensor:
    """The product in place of the sum."""
    out = tensor.float()
    dist.all_reduce(out, op=dist.ReduceOp.PRODUCT)
    return out.to(tensor.dtype)


def half_reduced(tensor: Tensor) -> Tensor:
    """The second half of the rows is never reduced."""
    out = tensor.clone()
    dist.all_reduce(out[: len(out) // 2])
    return out


def transposed(tensor: Tensor) -> Tensor:
    """The sum with rows and columns exchanged."""
    out = tensor.clone()
    dist.all_reduce(out)
    return out.mT.reshape(out.shape)


ALLREDUCE = {function.__name__: function for function in (no_communication, maximum, product, half_reduced, transposed)}


def trial(slug: str, program: str) -> Trial:
    """One call of `program`: a family and a name as `Trial` has them, or "allreduce:NAME" for one of these."""
    return Trial(slug=slug, program=program, key=hashlib.sha256(f"{slug}/0".encode()).digest(), index=1)


def explained(wrong: Trial) -> list[tuple[str, str]]:
    """Output and message of every wrong output of this rank; nothing where the structure is wrong."""
    implementation = load(wrong.slug)
    call = call_of(wrong, implementation, rank=dist.get_rank(), world_size=dist.get_world_size())
    family, _, name = wrong.program.partition(":")
    if family == "allreduce":
        outputs = implementation.run(ALLREDUCE[name], call)
    else:
        outputs, _ = outputs_of(wrong.program, implementation, call)
    examiner = Examiner(implementation.problem)
    expected = examiner.expected(call)
    try:
        implementation.check(call, outputs, expected)
    except WrongStructure:
        return []
    with torch.no_grad():
        checks = examiner.judged(call, outputs, expected)
    return [(check.output, check.message) for check in checks if check.verdict is not None]


def sample() -> Iterator[tuple[str, str]]:
    """Four programs that a reviewer tried on `allreduce`, then every twelfth mutant of the catalog."""
    yield "allreduce", "mutant:own_times_world_size"
    yield from (("allreduce", f"allreduce:{name}") for name in ("no_communication", "maximum", "half_reduced"))
    mutants = [
        (problem.slug, f"mutant:{name}")
        for problem in registry.problems()
        if problem.refuses_world_size(WORLD_SIZE) is None
        for name in load(problem.slug).mutants
    ]
    yield from mutants[5::EVERY]


def main() -> None:
    """Print a row for every program of the sample: what the first wrong rank is told first."""
    with Ranks(WORLD_SIZE) as ranks:
        for slug, program in sample():
            found = [message for each in ranks.run(explained, trial(slug, program)) for _, message in each]
            first = found[0].split(". ")[0].split(" (largest")[0] if found else "(the output's shape is wrong)"
            sys.stdout.write(f"| `{slug}` | `{program.partition(':')[2]}` | {first} |\n")


if __name__ == "__main__":
    main()
