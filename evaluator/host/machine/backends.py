"""What backends need on a node besides torch and the CUDA tool kit, and what of it is missing."""

import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from evaluator.contract import Backend, Finding, SourceBundle, Verdict

_GIN = re.compile(r"\bncclGin\w*")
_HEADERS = {
    Backend.NVSHMEM: ("NVSHMEM", "nvidia/nvshmem/include/nvshmem.h"),
    Backend.NCCL_DEVICE: ("NCCL 2.28 or newer with its device API", "nvidia/nccl/include/nccl_device.h"),
}
"""Packages installed beside torch: a name, and the header that shows it."""


@dataclass(frozen=True, kw_only=True)
class Node:
    """Where this node's software is: Python packages, RDMA devices."""

    packages: Path
    rdma: Path

    @classmethod
    def this(cls) -> Self:
        """This machine. Submissions look for packages beside torch too."""
        torch = importlib.util.find_spec("torch")
        return cls(
            packages=Path(torch.origin).parents[1] if torch is not None and torch.origin else Path("/"),
            rdma=Path("/sys/class/infiniband"),
        )


def missing(bundle: SourceBundle, *, backend: Backend, node: Node) -> tuple[Finding, ...]:
    """UNSUPPORTED with the piece that this node lacks for `backend`, before anything is compiled; else nothing."""
    if backend in _HEADERS:
        words, header = _HEADERS[backend]
        if not (node.packages / header).is_file():
            return (_unsupported(f"backend {backend} needs {words}; this node has no {header} beside torch"),)
    if backend is Backend.NCCL_DEVICE and not (node.rdma.is_dir() and any(node.rdma.iterdir())):
        for file in bundle.files:
            if used := _GIN.search(file.text):
                line = file.text.count("\n", 0, used.start()) + 1
                message = f"{used[0]} needs an RDMA network card, and this node has none in {node.rdma}"
                return (_unsupported(message, file=file.path, line=line),)
    return ()


def _unsupported(message: str, *, file: str | None = None, line: int | None = None) -> Finding:
    return Finding(verdict=Verdict.UNSUPPORTED, message=message, file=file, line=line)
