"""Files in memory that the host shares with ranks."""

import fcntl
import os


def create(name: str, size: int) -> int:
    """A file of `size` bytes that nobody can resize, under those who have it mapped; returns its descriptor."""
    descriptor = os.memfd_create(name, os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
    os.ftruncate(descriptor, size)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return descriptor
