"""The system call filter of a sandbox, made by libseccomp for bubblewrap's `--seccomp`.

It is a list of refused calls, not full protection: calls that no submission needs and that exploits use. It cannot
filter requests to a GPU driver.
"""

import contextlib
import ctypes
import errno
import functools
import os

from evaluator.errors import EvaluatorError

_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NOT_EQUAL, _MASKED_EQUAL = 1, 7
_FOR_OTHER_ARCHITECTURES = 2
"""SCMP_FLTATR_ACT_BADARCH: what calls by another table of calls get, as those of 32-bit programs."""

_INT = 2**32 - 1
"""The kernel reads an int from the low half of a register, whatever the other half holds."""

_AF_NETLINK, _AF_PACKET, _AF_VSOCK = 16, 17, 40
_NEW_NAMESPACES = (0x80, 0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)
"""CLONE_NEWTIME, NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET."""

REFUSED = (
    "ptrace", "syslog", "personality", "pivot_root", "chroot", "acct", "mount", "umount2", "reboot", "init_module",
    "delete_module", "quotactl", "kexec_load", "add_key", "request_key", "keyctl", "unshare", "perf_event_open",
    "name_to_handle_at", "open_by_handle_at", "setns", "process_vm_readv", "process_vm_writev", "finit_module",
    "kexec_file_load", "bpf", "userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register", "open_tree",
    "move_mount", "fsopen", "fsconfig", "fsmount", "fspick", "pidfd_getfd", "mount_setattr",
)  # fmt: skip


class _Argument(ctypes.Structure):
    """A condition on an argument of a call: its number, how it is compared, and with what (`scmp_arg_cmp`)."""

    _fields_ = (("number", ctypes.c_uint), ("how", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64))


def is_available() -> bool:
    """Whether this machine has libseccomp."""
    with contextlib.suppress(OSError):
        return _library() is not None
    return False


@functools.cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL("libseccomp.so.2")
    library.seccomp_init.restype = ctypes.c_void_p
    return library


def open_program() -> int:
    """The filter as a descriptor at its start; bubblewrap reads it to the end, so each start needs its own.

    Refused calls fail with EPERM; clone3 with ENOSYS, so that the C library falls back to clone.

    Raises:
        EvaluatorError: libseccomp is too old to know one of the calls.
    """
    context = ctypes.c_void_p(_library().seccomp_init(_ALLOW))
    descriptor = os.memfd_create("filter", os.MFD_CLOEXEC)
    try:
        _done(_library().seccomp_attr_set(context, _FOR_OTHER_ARCHITECTURES, _ERRNO | errno.ENOSYS), "the architecture")
        for name in REFUSED:
            _refuse(context, name, errno.EPERM)
        _refuse(context, "clone3", errno.ENOSYS)
        for flag in _NEW_NAMESPACES:
            _refuse(context, "clone", errno.EPERM, _Argument(0, _MASKED_EQUAL, flag, flag))
        # Of another process: the launcher has the user of its ranks.
        _refuse(context, "prlimit64", errno.EPERM, _Argument(0, _NOT_EQUAL, 0, 0))
        for family in (_AF_PACKET, _AF_VSOCK):
            _refuse(context, "socket", errno.EAFNOSUPPORT, _Argument(0, _MASKED_EQUAL, _INT, family))
        # Netlink for other things than routes, which is protocol 0.
        netlink, other = _Argument(0, _MASKED_EQUAL, _INT, _AF_NETLINK), _Argument(2, _NOT_EQUAL, 0, 0)
        _refuse(context, "socket", errno.EAFNOSUPPORT, netlink, other)
        _done(_library().seccomp_export_bpf(context, descriptor), "the filter")
        os.lseek(descriptor, 0, os.SEEK_SET)
    except BaseException:
        os.close(descriptor)
        raise
    finally:
        _library().seccomp_release(context)
    return descriptor


def _refuse(context: ctypes.c_void_p, name: str, error: int, *where: _Argument) -> None:
    number = _library().seccomp_syscall_resolve_name(name.encode())
    arguments = (_Argument * len(where))(*where)
    _done(_library().seccomp_rule_add_array(context, _ERRNO | error, number, len(where), arguments), name)


def _done(result: int, what: str) -> None:
    if result:
        raise EvaluatorError(f"libseccomp cannot refuse {what} here: {os.strerror(-result)}")
