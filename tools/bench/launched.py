"""One rank of one launch of `tools.bench.launches`: warm up, time a hundred calls, end."""

import importlib.util
import os
import sys
from statistics import median
from time import perf_counter

import torch
import torch.distributed as dist

from evaluator.hardware import profiles
from problems.harness.implementation import Program, load
from problems.inputs.values import Call
from problems.spec.schema import SizeName

_WARM_UP, _TIMED = 10, 100


def program_in(path: str) -> Program:
    """The `solution` of a file."""
    spec = importlib.util.spec_from_file_location("solution", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.solution


def main(slug: str, path: str, profile: str, size: str, key: str) -> None:
    """Run as this rank; rank 0 prints the median."""
    chosen = profiles.get(profile)
    rank = int(os.environ["RANK"])
    device = torch.device(chosen.device, rank) if chosen.device == "cuda" else torch.device("cpu")
    if chosen.device == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group(chosen.process_group)
    implementation, program = load(slug), program_in(path)
    call = Call(
        key=bytes.fromhex(key), index=0, rank=rank, world_size=chosen.world_size,
        dims=implementation.problem.dims(SizeName(size), chosen.world_size), dtype=torch.bfloat16, device=device,
    )  # fmt: skip
    seconds = []
    for number in range(_WARM_UP + _TIMED):
        dist.barrier()
        start = perf_counter()
        implementation.run(program, call)
        if chosen.device == "cuda":
            torch.cuda.synchronize()
        if number >= _WARM_UP:
            seconds.append(perf_counter() - start)
    if rank == 0:
        print(f"  median {median(seconds) * 1e6:.0f} us, inputs included")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
