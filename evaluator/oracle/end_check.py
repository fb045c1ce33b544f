"""Copies secret samples of a rank's shared memory at the end of a call.

A fingerprint shows that a rank knew the outputs. It does not show that they had reached this rank, because ranks of one
submission may answer for each other, nor that this rank read its inputs. So an oracle rank waits for the end beside the
host. It copies samples by the device's copy engine, which answers in some ten microseconds whatever the program's
kernels still do. That was measured on H200; a kernel of ours would wait for milliseconds. Later the memory must still
agree.
"""

import time
from dataclasses import dataclass
from typing import Any

import torch

from evaluator.arena.device_memory import checked, cuda_driver
from evaluator.oracle.ends import Ends

_ROWS, _WIDTH = 512, 32
"""Samples of an area: how many, of how many bytes each, at equal distances from a secret offset."""

_LOOKS = 4096
"""How often the page is read between two reads of the clock."""


@dataclass(frozen=True, kw_only=True)
class SamplePattern:
    """Where samples of an area lie: `rows` times `width` bytes from byte `start`, `pitch` bytes apart."""

    start: int
    pitch: int
    rows: int
    width: int

    @classmethod
    def drawn(cls, begin: int, end: int, *, secret: int) -> "SamplePattern | None":
        """Samples between two bytes of an area; None where it has none to choose from."""
        width = min(_WIDTH, end - begin)
        if width <= 0:
            return None
        rows = max(1, min(_ROWS, (end - begin) // (2 * width)))
        pitch = (end - begin) // rows
        return cls(start=begin + secret % max(1, pitch - width + 1), pitch=pitch, rows=rows, width=width)


class EndCheck:
    """Copies samples when the gatekeeper has seen a rank's end."""

    def __init__(self, ends: Ends, *, rank: int, device: torch.device) -> None:
        self._ends = ends
        self._rank = rank
        self._device = device
        self._stream = torch.cuda.Stream(device)
        self._kept = [torch.empty(_ROWS * _WIDTH, dtype=torch.uint8, pin_memory=True) for _ in range(2)]
        self._seen: dict[int, tuple[torch.Tensor, SamplePattern]] = {}

    def watch(self, ticket: int, areas: list[tuple[torch.Tensor, SamplePattern | None]], *, limit_s: float) -> int:
        """Wait for the end of the call with this `ticket` and copy samples of `areas`.

        Returns:
            Nanoseconds from seeing the end to having the samples; -1 where no end came within `limit_s`, or the host
            no longer waits for it.
        """
        wanted = [
            (which, area, pattern, self._request(area, pattern, self._kept[which]))
            for which, (area, pattern) in enumerate(areas)
            if pattern is not None
        ]
        self._seen = {}
        if not self._has_ended(ticket, limit_s=limit_s):
            return -1
        seen_ns = time.monotonic_ns()
        driver, stream = cuda_driver(), self._stream.cuda_stream
        for *_, request in wanted:
            checked(driver.cuMemcpy2DAsync(request, stream))
        checked(driver.cuStreamSynchronize(stream))
        self._seen = {which: (area, pattern) for which, area, pattern, _ in wanted}
        return time.monotonic_ns() - seen_ns

    def forget(self) -> None:
        """Forget the sampled areas, which are released."""
        self._seen = {}

    def unlike(self) -> list[int]:
        """The indices of the areas whose memory now differs from its samples."""
        torch.cuda.synchronize(self._device)
        return [
            which
            for which, (area, pattern) in self._seen.items()
            if not torch.equal(_samples(area, pattern).cpu(), self._kept[which][: pattern.rows * pattern.width])
        ]

    def _has_ended(self, ticket: int, *, limit_s: float) -> bool:
        deadline = time.monotonic() + limit_s
        has_come, rank = self._ends.has_come, self._rank
        while time.monotonic() < deadline:
            for _ in range(_LOOKS):
                ended = has_come(rank, ticket)
                if ended is None:
                    return False
                if ended:
                    return True
        return False

    def _request(self, area: torch.Tensor, pattern: SamplePattern, kept: torch.Tensor) -> Any:
        driver = cuda_driver()
        request = driver.CUDA_MEMCPY2D()
        request.srcMemoryType = driver.CUmemorytype.CU_MEMORYTYPE_DEVICE
        request.srcDevice = area.data_ptr() + pattern.start
        request.srcPitch = pattern.pitch
        request.dstMemoryType = driver.CUmemorytype.CU_MEMORYTYPE_HOST
        request.dstHost = kept.data_ptr()
        request.dstPitch = pattern.width
        request.WidthInBytes = pattern.width
        request.Height = pattern.rows
        return request


def _samples(area: torch.Tensor, pattern: SamplePattern) -> torch.Tensor:
    """The bytes of an area under `pattern`, one sample after the other."""
    return area.as_strided((pattern.rows, pattern.width), (pattern.pitch, 1), pattern.start).reshape(-1)
