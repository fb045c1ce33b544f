"""Device memory that two processes share by a descriptor: CUDA's virtual memory management (driver API).

The oracle creates an area, the sandbox rank maps the same memory, and inputs and outputs cross without a copy
through the host. Legacy IPC handles do not work across process namespaces; descriptors do.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Self

import torch


class DeviceMemory:
    """An area of bytes on one GPU; `bytes` is a flat uint8 tensor over it, valid until `close`."""

    def __init__(self, handle: Any, *, size: int, device: torch.device) -> None:
        """Map `handle`, an allocation of `size` bytes (a multiple of the granularity) on `device`."""
        driver = cuda_driver()
        self._handle = handle
        self._size = size
        self._address = checked(driver.cuMemAddressReserve(size, 0, 0, 0))
        checked(driver.cuMemMap(self._address, size, 0, handle, 0))
        access = driver.CUmemAccessDesc()
        access.location = _location(device)
        access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        checked(driver.cuMemSetAccess(self._address, size, [access], 1))
        self.bytes: torch.Tensor = bytes_at(int(self._address), size, device=device)

    @property
    def size(self) -> int:
        """Bytes mapped."""
        return self._size

    @classmethod
    def create(cls, least: int, *, device: torch.device) -> Self:
        """A new area of at least `least` bytes; raises RuntimeError where the device refuses."""
        driver = cuda_driver()
        properties = _properties(device)
        flag = driver.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
        granularity = checked(driver.cuMemGetAllocationGranularity(properties, flag))
        size = -(-max(1, least) // granularity) * granularity
        return cls(checked(driver.cuMemCreate(size, properties, 0)), size=size, device=device)

    @classmethod
    def received(cls, descriptor: int, *, size: int, device: torch.device) -> Self:
        """The area behind a descriptor that another process exported; the descriptor may be closed afterwards."""
        return cls(checked(cuda_driver().cuMemImportFromShareableHandle(descriptor, _kind())), size=size, device=device)

    def descriptor(self) -> int:
        """A new descriptor of this memory, for another process."""
        return int(checked(cuda_driver().cuMemExportToShareableHandle(self._handle, _kind(), 0)))

    def close(self) -> None:
        """Unmap and release; the memory itself lives while another process has it mapped."""
        driver = cuda_driver()
        del self.bytes
        checked(driver.cuMemUnmap(self._address, self._size))
        checked(driver.cuMemAddressFree(self._address, self._size))
        checked(driver.cuMemRelease(self._handle))


class _Stretch:
    """Memory as torch takes it without a copy (the CUDA array interface, version 3)."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, False),
            "strides": None,
            "version": 3,
        }


def bytes_at(address: int, size: int, *, device: torch.device) -> torch.Tensor:
    """A flat uint8 tensor over `size` bytes of device memory; the owner of the memory keeps it alive."""
    return torch.as_tensor(_Stretch(address, size), device=device)


def is_available(device: torch.device) -> bool:
    """Whether this process can share memory of `device`: a GPU, and the driver's Python bindings are installed."""
    if device.type != "cuda":
        return False
    try:
        cuda_driver()
    except ImportError:
        return False
    return True


def forget_persisting_lines(device: torch.device) -> None:
    """Reset persisting lines of the L2 cache, so that no call begins with those of an earlier one."""
    if is_available(device):
        checked(cuda_driver().cuCtxResetPersistingL2Cache())


def l2_aside(device: torch.device) -> int:
    """Bytes of the L2 cache that are set aside for lines that persist; 0 where that is unknown."""
    if not is_available(device):
        return 0
    driver = cuda_driver()
    return int(checked(driver.cuCtxGetLimit(driver.CUlimit.CU_LIMIT_PERSISTING_L2_CACHE_SIZE)))


def set_l2_aside(device: torch.device, size: int) -> None:
    """Set aside `size` bytes of the L2 cache for lines that persist."""
    if l2_aside(device) != size:
        driver = cuda_driver()
        checked(driver.cuCtxSetLimit(driver.CUlimit.CU_LIMIT_PERSISTING_L2_CACHE_SIZE, size))


class L2Share:
    """The part of the L2 cache that a program sets aside. It applies only while it is timed, as it slows others."""

    def __init__(self, *, read: Callable[[], int], write: Callable[[int], object]) -> None:
        """Made before there is a program: the present size, in bytes, is that of everything else.

        Args:
            read: returns how many bytes are set aside.
            write: sets aside so many bytes.
        """
        self._read, self._write = read, write
        self._others = self._programs = read()

    @classmethod
    def of(cls, device: torch.device) -> Self:
        """The share of the program that runs on `device`."""
        return cls(read=partial(l2_aside, device), write=partial(set_l2_aside, device))

    def give(self) -> None:
        """Set aside what the program last asked for, in a call or since, such as in its import."""
        asked = self._read()
        if asked != self._others:
            self._programs = asked
        self._write(self._programs)

    def take_back(self) -> None:
        """Note what the program has set aside, and restore the size from before the program."""
        self._programs = self._read()
        self._write(self._others)


def cuda_driver() -> Any:
    """The driver's Python bindings; raises ImportError where they are not installed."""
    # Imported on GPU nodes only; CPU nodes do not have the package.
    from cuda.bindings import driver  # noqa: PLC0415

    return driver


def _kind() -> Any:
    return cuda_driver().CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR


def _location(device: torch.device) -> Any:
    driver = cuda_driver()
    location = driver.CUmemLocation()
    location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    location.id = device.index or 0
    return location


def _properties(device: torch.device) -> Any:
    driver = cuda_driver()
    properties = driver.CUmemAllocationProp()
    properties.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    properties.location = _location(device)
    properties.requestedHandleTypes = _kind()
    return properties


def checked(answer: tuple[Any, ...]) -> Any:
    """The value of a driver call; raises RuntimeError with the driver's own name for the error."""
    error, *values = answer
    if int(error) != 0:
        raise RuntimeError(f"the CUDA driver answered {error.name}")
    return values[0] if values else None
