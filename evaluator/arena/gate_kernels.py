"""The kernels of `gate.cu`, compiled by NVRTC (a quarter of a second), launched on torch's stream.

What forks ranks has them compiled before, in a process of their own, and the ranks inherit the result. NVRTC needs no
GPU, but where there is a driver it starts threads and the driver (13.0, 23 November 2026). Ranks forked from such a
process cannot use CUDA.
"""

import ctypes
import os
from pathlib import Path
from typing import Any

import torch

from evaluator.arena.device_memory import checked, cuda_driver

_SOURCE = Path(__file__).with_name("gate.cu")
_NAMES = ("pkb_gate", "pkb_seal", "pkb_take", "pkb_touch")

TILE_BYTES = 64 * 256 * 2
"""The bytes from which one block of threads of `pkb_take` makes one node of its tree."""
TILE_HASH_BYTES = 32
KEY_BYTES = 32

Argument = tuple[Any, Any]
"""A value and its C type."""


def address(value: int) -> Argument:
    """A pointer argument; 0 for none."""
    return value, ctypes.c_void_p


def word(value: int) -> Argument:
    """A 64-bit argument."""
    return value, ctypes.c_uint64


def half_word(value: int) -> Argument:
    """A 32-bit argument."""
    return value, ctypes.c_uint32


class Kernels:
    """The compiled kernels of one device."""

    def __init__(self, device: torch.device) -> None:
        """Compile for `device`; raises RuntimeError with the compiler's words where that fails."""
        self._driver = cuda_driver()
        self.device = device
        self.processors = torch.cuda.get_device_properties(device).multi_processor_count
        major, minor = torch.cuda.get_device_capability(device)
        module = checked(self._driver.cuModuleLoadData(compiled(10 * major + minor)))
        self._functions = {name: checked(self._driver.cuModuleGetFunction(module, name.encode())) for name in _NAMES}

    def launch(self, name: str, *arguments: Argument, blocks: int, threads: int) -> None:
        """Queue a kernel on torch's current stream; raises RuntimeError where the driver refuses."""
        values = tuple(value for value, _ in arguments)
        types = tuple(kind for _, kind in arguments)
        stream = torch.cuda.current_stream(self.device).cuda_stream
        checked(
            self._driver.cuLaunchKernel(
                self._functions[name], blocks, 1, 1, threads, 1, 1, 0, stream, (values, types), 0
            )
        )


_known: dict[int, bytes] = {}
"""What is compiled, by compute capability."""


def compile_apart(capability: int) -> None:
    """Compile for a compute capability (90 for sm_90) in a child process, for this process and those it forks.

    Where that fails, every rank compiles for itself and reports what is wrong.
    """
    out, into = os.pipe()
    pid = os.fork()
    if not pid:
        code = 1
        try:
            os.close(out)
            with os.fdopen(into, "wb") as file:
                file.write(_compiled(capability))
            code = 0
        finally:
            os._exit(code)
    os.close(into)
    with os.fdopen(out, "rb") as file:
        binary = file.read()
    if os.waitpid(pid, 0)[1] == 0:
        _known[capability] = binary


def compiled(capability: int) -> bytes:
    """The kernels for a compute capability, compiled once; raises RuntimeError."""
    if capability not in _known:
        _known[capability] = _compiled(capability)
    return _known[capability]


def _compiled(capability: int) -> bytes:
    from cuda.bindings import nvrtc  # noqa: PLC0415 - on GPU nodes only

    program = checked(nvrtc.nvrtcCreateProgram(_SOURCE.read_bytes(), _SOURCE.name.encode(), 0, [], []))
    option = f"--gpu-architecture=sm_{capability}".encode()
    error = nvrtc.nvrtcCompileProgram(program, 1, [option])
    if int(error[0]) != 0:
        log = b" " * checked(nvrtc.nvrtcGetProgramLogSize(program))
        nvrtc.nvrtcGetProgramLog(program, log)
        raise RuntimeError(f"{_SOURCE.name} does not compile: {log.decode(errors='replace')}")
    binary: bytes = b" " * checked(nvrtc.nvrtcGetCUBINSize(program))
    checked(nvrtc.nvrtcGetCUBIN(program, binary))
    return binary
