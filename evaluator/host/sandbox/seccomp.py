"""The system call filter of a sandbox, as a classic BPF program for bubblewrap's `--seccomp`.

It is a list of refused calls, not full protection: calls that no submission needs and that exploits use. It cannot
filter requests to a GPU driver. Numbers are those of x86-64 (Linux `arch/x86/entry/syscalls/syscall_64.tbl`).
"""

import errno
import os
import platform
import struct

_AUDIT_ARCH_X86_64 = 0xC000003E
_X32_BIT = 0x40000000

_ALLOW = 0x7FFF0000
_KILL_PROCESS = 0x80000000
_ERRNO = 0x00050000

_LOAD = 0x20
_IF_EQUAL = 0x15
_IF_AT_LEAST = 0x35
_IF_ANY_BIT = 0x45
_RETURN = 0x06

_OFFSET_NUMBER = 0
_OFFSET_ARCH = 4
_OFFSET_ARGUMENTS = 16

_NEW_NAMESPACES = 0x7E020080
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET and NEWTIME."""

_CLONE, _CLONE3, _SOCKET, _PRLIMIT = 56, 435, 41, 302
_AF_NETLINK, _AF_PACKET, _AF_VSOCK = 16, 17, 40

REFUSED = {
    "ptrace": 101,
    "syslog": 103,
    "personality": 135,
    "pivot_root": 155,
    "chroot": 161,
    "acct": 163,
    "mount": 165,
    "umount2": 166,
    "reboot": 169,
    "init_module": 175,
    "delete_module": 176,
    "quotactl": 179,
    "kexec_load": 246,
    "add_key": 248,
    "request_key": 249,
    "keyctl": 250,
    "unshare": 272,
    "perf_event_open": 298,
    "name_to_handle_at": 303,
    "open_by_handle_at": 304,
    "setns": 308,
    "process_vm_readv": 310,
    "process_vm_writev": 311,
    "finit_module": 313,
    "kexec_file_load": 320,
    "bpf": 321,
    "userfaultfd": 323,
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "pidfd_getfd": 438,
    "mount_setattr": 442,
}


def is_available() -> bool:
    """Whether there is a filter for this machine's processor."""
    return platform.machine() == "x86_64"


def program() -> bytes:
    """The filter. Refused calls fail with EPERM; clone3 with ENOSYS, so that the C library falls back to clone."""
    lines = [
        _line(_LOAD, _OFFSET_ARCH),
        _line(_IF_EQUAL, _AUDIT_ARCH_X86_64, 1, 0),
        _line(_RETURN, _KILL_PROCESS),
        _line(_LOAD, _OFFSET_NUMBER),
        _line(_IF_AT_LEAST, _X32_BIT, 0, 1),
        _refuse(errno.ENOSYS),
    ]
    for number in REFUSED.values():
        lines += [_line(_IF_EQUAL, number, 0, 1), _refuse(errno.EPERM)]
    lines += [_line(_IF_EQUAL, _CLONE3, 0, 1), _refuse(errno.ENOSYS)]
    lines += _clone() + _prlimit() + _socket() + [_line(_RETURN, _ALLOW)]
    return b"".join(lines)


def _line(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, if_true, if_false, value)


def _refuse(error: int) -> bytes:
    return _line(_RETURN, _ERRNO | error)


def _clone() -> list[bytes]:
    """clone, unless it asks for a new namespace."""
    return [
        _line(_IF_EQUAL, _CLONE, 0, 4),
        _line(_LOAD, _OFFSET_ARGUMENTS),
        _line(_IF_ANY_BIT, _NEW_NAMESPACES, 0, 1),
        _refuse(errno.EPERM),
        _line(_RETURN, _ALLOW),
    ]


def _prlimit() -> list[bytes]:
    """prlimit, unless it names another process: the launcher has the user of its ranks."""
    return [
        _line(_IF_EQUAL, _PRLIMIT, 0, 4),
        _line(_LOAD, _OFFSET_ARGUMENTS),
        _line(_IF_EQUAL, 0, 1, 0),
        _refuse(errno.EPERM),
        _line(_RETURN, _ALLOW),
    ]


def _socket() -> list[bytes]:
    """socket, except for packet and vsock families, and for netlink other than routing (protocol 0)."""
    body = [
        _line(_LOAD, _OFFSET_ARGUMENTS),
        _line(_IF_EQUAL, _AF_PACKET, 0, 1),
        _refuse(errno.EAFNOSUPPORT),
        _line(_IF_EQUAL, _AF_VSOCK, 0, 1),
        _refuse(errno.EAFNOSUPPORT),
        _line(_IF_EQUAL, _AF_NETLINK, 0, 3),
        _line(_LOAD, _OFFSET_ARGUMENTS + 16),
        _line(_IF_EQUAL, 0, 1, 0),
        _refuse(errno.EAFNOSUPPORT),
        _line(_RETURN, _ALLOW),
    ]
    return [_line(_IF_EQUAL, _SOCKET, 0, len(body)), *body]


def open_program() -> int:
    """The filter as a descriptor at its start; bubblewrap reads it to the end, so each start needs its own."""
    descriptor = os.memfd_create("filter", os.MFD_CLOEXEC)
    os.pwrite(descriptor, program(), 0)
    return descriptor
