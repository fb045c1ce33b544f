"""One rank that measures what the hardware reaches; `evaluator.measuring.ceiling_run` starts all of them.

`python -m evaluator.measuring.ceiling_rank PROFILE STORE RANK`: rank 0 prints one line of JSON, the ceilings
without machine and time. Every figure is measured on all ranks at once, and the slowest counts, as in judging.
"""

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any

import torch
import torch.distributed as dist

from evaluator.hardware import profiles

_WARM_UP, _CALLS = 5, 20


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How large the measured programs are: enough to saturate a GPU, or small enough for a CPU's practice board."""

    product_side: int
    copy_bytes: int
    messages: tuple[int, ...]
    dtypes: tuple[str, ...]


_SCALES = {
    "cuda": Scale(
        product_side=8192,
        copy_bytes=2**30,
        messages=tuple(2**power for power in range(12, 30, 2)),
        dtypes=("bfloat16", "float8_e4m3fn", "float32"),
    ),
    "cpu": Scale(product_side=512, copy_bytes=2**25, messages=(2**12, 2**16, 2**20), dtypes=("float32",)),
}


class Rank:
    """This rank's measurements."""

    def __init__(self, profile: str, store: str, rank: int) -> None:
        self.profile = profiles.get(profile)
        self.rank, self.world_size = rank, self.profile.world_size
        self.is_cuda = self.profile.device == "cuda"
        self.device = torch.device("cuda", rank) if self.is_cuda else torch.device("cpu")
        self.scale = _SCALES[self.profile.device]
        self.notes: list[str] = []
        if self.is_cuda:
            torch.cuda.set_device(self.device)
        dist.init_process_group(
            self.profile.process_group, init_method=f"file://{store}", rank=rank, world_size=self.world_size
        )

    def measure(self) -> dict[str, Any]:
        """Everything, in one order on all ranks."""
        return {
            "arithmetic_flops": dict(self._arithmetic()),
            "memory_bytes_s": self._memory(),
            "pairs": list(self._pairs()),
            "collectives": list(self._collectives()),
            "empty_collective_us": self._seconds(_all_reduce(torch.zeros(1, device=self.device))) * 1e6,
            "barrier_us": self._barrier_us(),
            "notes": self.notes,
        }

    def _seconds(self, action: Callable[[], object]) -> float:
        """Median over calls of the slowest rank's time in seconds."""
        times = []
        for number in range(_WARM_UP + _CALLS):
            dist.barrier()
            self._synchronize()
            taken = self._timed(action)
            if number >= _WARM_UP:
                times.append(taken)
        slowest = torch.tensor(times, dtype=torch.float64, device=self.device)
        dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
        return float(median(slowest.tolist()))

    def _timed(self, action: Callable[[], object]) -> float:
        if not self.is_cuda:
            start = perf_counter()
            action()
            return perf_counter() - start
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        action()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) * 1e-3

    def _synchronize(self) -> None:
        if self.is_cuda:
            torch.cuda.synchronize()

    def _arithmetic(self) -> Iterator[tuple[str, float]]:
        side = self.scale.product_side
        for name in self.scale.dtypes:
            try:
                product = _product(name, side, self.device)
                product()
            except RuntimeError as error:
                self.notes.append(f"no matrix product in {name}: {str(error).splitlines()[0]}")
                continue
            yield name, 2 * side**3 / self._seconds(product)

    def _memory(self) -> float:
        source = torch.ones(self.scale.copy_bytes, dtype=torch.uint8, device=self.device)
        target = torch.empty_like(source)
        return 2 * self.scale.copy_bytes / self._seconds(lambda: target.copy_(source))

    def _pairs(self) -> Iterator[dict[str, float]]:
        """Copies out of a peer's symmetric memory into one's own, one pair at a time."""
        if not self.is_cuda:
            return
        import torch.distributed._symmetric_memory as symm_mem  # noqa: PLC0415 - only where there are GPUs

        offered = symm_mem.empty(self.scale.copy_bytes, dtype=torch.uint8, device=self.device)
        handle = symm_mem.rendezvous(offered, _world())
        own = torch.empty_like(offered)
        for source in range(self.world_size):
            for target in range(self.world_size):
                if source != target:
                    peer = handle.get_buffer(source, offered.shape, offered.dtype)
                    action = (lambda peer=peer: own.copy_(peer)) if self.rank == target else (lambda: None)
                    rate = self.scale.copy_bytes / self._seconds(action)
                    yield {"source": source, "target": target, "bytes_s": rate}

    def _collectives(self) -> Iterator[dict[str, Any]]:
        ranks = self.world_size
        share = (ranks - 1) / ranks
        for name, factor, make in (
            ("all_reduce", 2 * share, _all_reduce_of),
            ("all_gather", share, _all_gather_of),
            ("all_to_all", share, _all_to_all_of),
        ):
            for message in self.scale.messages:
                seconds = self._seconds(make(message // ranks * ranks, ranks, self.device))
                yield {
                    "name": name,
                    "message_bytes": message // ranks * ranks,
                    "median_us": seconds * 1e6,
                    "bus_bytes_s": factor * message / seconds,
                }

    def _barrier_us(self) -> float | None:
        if not self.is_cuda:
            return None
        import torch.distributed._symmetric_memory as symm_mem  # noqa: PLC0415 - only where there are GPUs

        handle = symm_mem.rendezvous(symm_mem.empty(1024, device=self.device), _world())
        return self._seconds(handle.barrier) * 1e6


def _world() -> dist.ProcessGroup:
    assert dist.group.WORLD is not None, "the process group was formed before"
    return dist.group.WORLD


def _product(name: str, side: int, device: torch.device) -> Callable[[], object]:
    """A square matrix product in the dtype called `name`, float32 without TF32."""
    left, right = (torch.randn(side, side, device=device) for _ in range(2))
    if name == "float8_e4m3fn":
        one = torch.ones((), device=device)
        narrow, column = left.to(torch.float8_e4m3fn), right.to(torch.float8_e4m3fn).t()
        return lambda: torch._scaled_mm(narrow, column, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)  # noqa: SLF001 - torch's only fp8 product
    torch.backends.cuda.matmul.allow_tf32 = False
    dtype = getattr(torch, name)
    left, right = left.to(dtype), right.to(dtype)
    out = torch.empty(side, side, dtype=dtype, device=device)
    return lambda: torch.matmul(left, right, out=out)


def _all_reduce(tensor: torch.Tensor) -> Callable[[], object]:
    return lambda: dist.all_reduce(tensor)


def _all_reduce_of(message: int, _ranks: int, device: torch.device) -> Callable[[], object]:
    return _all_reduce(torch.zeros(message // 2, dtype=torch.bfloat16, device=device))


def _all_gather_of(message: int, ranks: int, device: torch.device) -> Callable[[], object]:
    gathered = torch.empty(message, dtype=torch.uint8, device=device)
    own = torch.ones(message // ranks, dtype=torch.uint8, device=device)
    return lambda: dist.all_gather_into_tensor(gathered, own)


def _all_to_all_of(message: int, _ranks: int, device: torch.device) -> Callable[[], object]:
    sent = torch.ones(message, dtype=torch.uint8, device=device)
    received = torch.empty_like(sent)
    return lambda: dist.all_to_all_single(received, sent)


def main(profile: str, store: str, rank: str) -> None:
    """Measure as this rank; rank 0 prints."""
    measuring = Rank(profile, store, int(rank))
    found = measuring.measure()
    dist.destroy_process_group()
    if measuring.rank == 0:
        sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
