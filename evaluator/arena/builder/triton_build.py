"""Triton in the builder's sandbox: runs the submission on tensors without memory and compiles what it launches.

No GPU is needed: Triton compiles for a given target, and stores the result under a key of source, argument
types, target and versions, which a rank finds again. The same goes for the C modules that load and launch kernels,
which Triton has the host's compiler build where a kernel is launched for the first time. What cannot be traced (values
that decide a branch, calls into a device) is compiled in the first call on the ranks, as without this module. Nothing
here decides a verdict.
"""

import contextlib
import os
import sys
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_CALLS = 2
"""Calls that are traced: programs that alternate between buffers launch with other arguments every second time."""

_ADDRESS = 0x7F00_0000_0000
_GAP = 1 << 36


class Target:
    """Stands in for Triton's driver: names the GPU to compile for, and has no device."""

    def __init__(self, target: Any, device: Any) -> None:
        self._target, self._device = target, device

    def get_current_target(self) -> Any:
        """What to compile for."""
        return self._target

    def get_current_device(self) -> int:
        """The rank's device by number."""
        return int(self._device.index)

    def get_current_stream(self, _device: int) -> int:
        """Nothing is launched on it."""
        return 0

    def get_active_torch_device(self) -> Any:
        """The rank's device."""
        return self._device


class Handle:
    """Stands in for the handle of symmetric memory: its addresses have Triton's types and point nowhere."""

    def __init__(self, rank: int, world_size: int, device: Any) -> None:
        self.rank, self.world_size, self._device = rank, world_size, device
        self.buffer_ptrs = [_ADDRESS + (2 + peer) * _GAP for peer in range(world_size)]
        self.signal_pad_ptrs = [_ADDRESS + (32 + peer) * _GAP for peer in range(world_size)]
        self.buffer_ptrs_dev, self.signal_pad_ptrs_dev = _ADDRESS, _ADDRESS + _GAP

    def get_buffer(self, _rank: int, sizes: Any, dtype: Any, _storage_offset: int = 0) -> Any:
        """A peer's buffer."""
        import torch  # noqa: PLC0415 - heavy; only where there is Triton to build

        return torch.empty(tuple(sizes), dtype=dtype, device=self._device)

    def get_signal_pad(self, _rank: int, sizes: Any = (512,), dtype: Any = None, _storage_offset: int = 0) -> Any:
        """A peer's signal pad."""
        import torch  # noqa: PLC0415

        return torch.empty(tuple(sizes), dtype=dtype or torch.uint32, device=self._device)

    def barrier(self, *_: Any, **__: Any) -> None:
        """Nobody to wait for."""


def compile_all(settings: dict[str, Any], notes: list[str]) -> list[Path]:
    """Trace every rank in its own process; returns the resulting files of Triton's cache.

    Args:
        settings: from the host: source, scratch, world_size, capability (90 for sm_90), calls (per size its
            name and the arguments as stand-ins).
        notes: what was compiled, and what could not be, for the author.
    """
    cache = Path(settings["triton_cache"])
    cache.mkdir(parents=True, exist_ok=True)
    os.environ["TRITON_CACHE_DIR"] = str(cache)
    import torch.distributed  # noqa: F401, PLC0415 - imported once, before the ranks are forked
    import triton  # noqa: F401, PLC0415

    children = {}
    for rank in range(settings["world_size"]):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            _trace_and_end(rank, settings, writing)
        os.close(writing)
        children[rank] = (child, reading)
    for rank, (child, reading) in children.items():
        with os.fdopen(reading, "rb") as pipe:
            lines = pipe.read(65536).decode(errors="replace").splitlines()
        notes += [f"rank {rank}: {line}" for line in lines if line.strip()]
        os.waitpid(child, 0)
    return sorted(path for path in cache.rglob("*") if path.is_file() and not path.name.endswith(".lock"))


def _trace_and_end(rank: int, settings: dict[str, Any], writing: int) -> None:
    """In the forked process: trace, report the result, and exit without exit handlers."""
    with contextlib.suppress(BaseException):
        said = "\n".join(_trace(rank, settings))
        os.write(writing, said.encode()[:65536])
    os._exit(0)


def _trace(rank: int, settings: dict[str, Any]) -> Iterator[str]:
    import torch  # noqa: PLC0415
    import torch.distributed as dist  # noqa: PLC0415
    from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: PLC0415
    from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: PLC0415

    warnings.simplefilter("ignore")
    world_size, device = settings["world_size"], torch.device("cuda", rank)
    dist.init_process_group("fake", rank=rank, world_size=world_size, store=FakeStore())
    compiled = _record_kernels(settings["capability"], device)
    _stand_in_for_devices(rank, world_size, device, capability=settings["capability"])
    sys.path.insert(0, settings["source"])
    with FakeTensorMode(allow_non_fake_inputs=True):
        try:
            solution = __import__("solution").solution
        except BaseException:  # noqa: BLE001 - also SystemExit: the ranks will show it to the author
            yield "importing solution.py without a GPU failed; Triton compiles in the first call"
            return
        for size, arguments in settings["calls"]:
            compiled.clear()
            try:
                for _ in range(_CALLS):
                    solution(*(_argument(item, device) for item in arguments))
            except BaseException as error:  # noqa: BLE001 - the first call will show whether it matters
                yield f"{size}: could not be traced to its end without a GPU: {_headline(error)}"
            yield f"{size}: compiled {', '.join(sorted(set(compiled))) or 'nothing'}"


def _headline(error: BaseException) -> str:
    """The exception in one line, with the submission's line that raised it."""
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.name != "_trace"][:1]
    lines = "".join(f" (line {frame.lineno})" for frame in own)
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0][:300]}{lines}"


def _argument(item: dict[str, Any], device: Any) -> Any:
    import torch  # noqa: PLC0415
    import torch.distributed as dist  # noqa: PLC0415

    if "shape" in item:
        return torch.empty(item["shape"], dtype=getattr(torch, item["dtype"]), device=device)
    return dist.group.WORLD if item.get("group") else item["value"]


def _record_kernels(capability: int, device: Any) -> list[str]:
    """Let launches compile instead of launch; names of what they compiled."""
    import torch  # noqa: PLC0415
    from triton.backends.compiler import GPUTarget  # noqa: PLC0415
    from triton.runtime import driver  # noqa: PLC0415
    from triton.runtime.autotuner import Autotuner  # noqa: PLC0415
    from triton.runtime.jit import JITFunction, MockTensor  # noqa: PLC0415

    compiled: list[str] = []
    driver.set_active(Target(GPUTarget("cuda", capability, 32), device))
    launch = JITFunction.run

    def run(self: Any, *arguments: Any, grid: Any, warmup: bool = False, **named: Any) -> Any:  # noqa: ARG001
        def typed(value: Any) -> Any:
            return MockTensor(value.dtype) if isinstance(value, torch.Tensor) else value

        given = {name: typed(value) for name, value in named.items()}
        kernel = launch(self, *map(typed, arguments), grid=grid, warmup=True, **given)
        # Ranks have what is missing here, such as the driver's library, and build these themselves.
        with contextlib.suppress(Exception):
            _build_launcher(kernel)
        compiled.append(self.fn.__name__)
        return kernel

    def run_each(self: Any, *arguments: Any, **named: Any) -> Any:
        """Autotuning measures every configuration in the first call; all of them can be compiled before."""
        for config in self.configs:
            self.fn.run(*arguments, **{**named, **config.all_kwargs()})

    JITFunction.run = run
    Autotuner.run = run_each
    return compiled


def _build_launcher(kernel: Any) -> None:
    """Build the C modules that load and launch `kernel` in a rank; Triton keeps them in its cache."""
    from triton.backends.nvidia.driver import CudaLauncher, CudaUtils  # noqa: PLC0415

    CudaUtils()
    CudaLauncher(kernel.src, kernel.metadata)


def _stand_in_for_devices(rank: int, world_size: int, device: Any, *, capability: int) -> None:
    """What a program asks of its device and of symmetric memory while it prepares a launch."""
    import torch  # noqa: PLC0415
    import torch.distributed._symmetric_memory as symm_mem  # noqa: PLC0415

    def empty(*shape: Any, dtype: Any = None, **_: Any) -> Any:
        sizes = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        return torch.empty(tuple(sizes), dtype=dtype, device=device)

    handle = Handle(rank, world_size, device)
    memory = {"empty": empty, "rendezvous": lambda *_, **__: handle, "get_symm_mem_workspace": lambda *_, **__: handle}
    cuda = {
        "current_device": lambda: rank,
        "set_device": lambda *_: None,
        "synchronize": lambda *_: None,
        "device_count": lambda: world_size,
        "get_device_capability": lambda *_: divmod(capability, 10),
    }
    for module, functions in ((symm_mem, memory), (torch.cuda, cuda)):
        for name, function in functions.items():
            setattr(module, name, function)
