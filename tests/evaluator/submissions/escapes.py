"""Tries to get out of the sandbox by every way of the checklist, then solves the problem; prints what it found.

The test replaces HOST by what it has put outside: a secret file, a process, listening sockets.
"""

import ctypes
import json
import os
import resource
import shutil
import signal
import socket
import stat
import subprocess
import sys

import torch
import torch.distributed as dist

HOST = {}
LIBRARY = ctypes.CDLL(None, use_errno=True)


def attempt(name, action):
    try:
        found = action()
    except BaseException as error:
        print(f"{name}: blocked ({type(error).__name__}: {str(error)[:60]})", flush=True)
    else:
        print(f"{name}: ALLOWED {found!r}"[:300], flush=True)


def none_of(found):
    """What must be empty."""
    found = list(found)
    if found:
        return found
    raise PermissionError("nothing there")


def on_the_way_to_python(folder):
    """The names in a folder that lead to the interpreter: a machine may have it in /opt."""
    prefixes = (sys.prefix, sys.base_prefix)
    return {prefix.removeprefix(f"{folder}/").split("/")[0] for prefix in prefixes if prefix.startswith(f"{folder}/")}


def system_call(number, *arguments):
    result = LIBRARY.syscall(number, *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def connect(family, address, kind=socket.SOCK_STREAM):
    with socket.socket(family, kind) as end:
        end.settimeout(1)
        end.connect(address)


def send_datagram():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
        end.sendto(b"x", ("8.8.8.8", 53))


def write(path):
    with open(path, "w") as file:
        file.write("x")


def read(path):
    with open(path, "rb") as file:
        return file.read(64) or none_of([])


def child(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=10, **options)
    if done.returncode:
        raise OSError(done.stderr[-60:])
    return done.stdout


def foreign_processes():
    """Processes beside this worker group's: bubblewrap, launcher, two ranks and children of ours."""
    names = [name for name in os.listdir("/proc") if name.isdigit()]
    for name in names:
        with open(f"/proc/{name}/cmdline", "rb") as file:
            line = file.read()
        if line and b"launcher.py" not in line:
            yield line


def readable_secrets():
    """Processes whose initial environment or arguments hold something of the host's."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            for file in ("environ", "cmdline"):
                try:
                    with open(f"/proc/{name}/{file}", "rb") as opened:
                        if HOST["secret"].encode() in opened.read():
                            yield f"{name}/{file}"
                except OSError:
                    pass


def inherited_descriptors():
    """Open descriptors that lead to a file, folder or device of the host."""
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue
        harmless = target.startswith(("/memfd:", "/dev/null", "socket:", "pipe:", "anon_inode:", "/proc/", "/tmp/"))
        if not harmless:
            yield name, target


def channels_of_others():
    """Sockets to the host: a rank has one, and nothing of its peer's."""
    own = [name for name in os.listdir("/proc/self/fd") if is_channel(int(name))]
    return own[1:]


def is_channel(number):
    try:
        if not stat.S_ISSOCK(os.fstat(number).st_mode):
            return False
        with socket.socket(fileno=os.dup(number)) as end:
            return end.family == socket.AF_UNIX and end.type == socket.SOCK_SEQPACKET
    except OSError:
        return False


def environment():
    words = ("SECRET", "PKB", "KEY", "TOKEN", "PASS", HOST["name"].upper())
    return [name for name in os.environ if any(word in f"{name}={os.environ[name]}".upper() for word in words)]


def planted_module():
    """A module beside the current folder or in a user's site folder, imported by a child."""
    home = os.path.expanduser("~/.local/lib/python%d.%d/site-packages" % sys.version_info[:2])
    os.makedirs(home, exist_ok=True)
    for folder in ("/tmp", home):
        for name in ("json.py", "usercustomize.py", "sitecustomize.py"):
            with open(f"{folder}/{name}", "w") as file:
                file.write("print('PLANTED')\n")
    try:
        if "PLANTED" not in child(sys.executable, "-c", "import json", cwd="/tmp"):
            raise PermissionError("not imported")
    finally:
        for folder in ("/tmp", home):
            for name in ("json.py", "usercustomize.py", "sitecustomize.py"):
                os.unlink(f"{folder}/{name}")


def become_root_by(program):
    path = shutil.which(program) or none_of([])
    child(path, "-c", "id", stdin=subprocess.DEVNULL)


def mode_that_gives_root():
    """A set-uid shell of one's own."""
    shutil.copy("/bin/sh", "/tmp/sh")
    os.chmod("/tmp/sh", 0o4755)
    uid = child("/tmp/sh", "-c", "id -u").strip()
    if uid != "0":
        raise PermissionError(uid)


def raise_limit():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard + 1, hard + 1))


def left_from_before():
    """What an earlier evaluation left; then leave something for the next one."""
    places = ("/tmp/left", "/dev/shm/left", "/tmp/triton/left")
    found = [path for path in places if os.path.exists(path)]
    os.makedirs("/tmp/triton", exist_ok=True)
    for path in places:
        write(path)
    return found


def through_root_of(pid):
    return read(f"/proc/{pid}/root{HOST['file']}")


CALLS = {
    "ptrace": (101, 16, os.getppid(), 0, 0),
    "process_vm_readv": (310, os.getppid(), 0, 0, 0, 0, 0),
    "process_vm_writev": (311, os.getppid(), 0, 0, 0, 0, 0),
    "pidfd_getfd": (438, 0, 0, 0),
    "perf_event_open": (298, 0, 0, -1, -1, 0),
    "bpf": (321, 0, 0, 0),
    "userfaultfd": (323, 0),
    "io_uring_setup": (425, 1, 0),
    "keyctl": (250, 0, -3, 0),
    "add_key": (248, 0, 0, 0, 0, 0),
    "request_key": (249, 0, 0, 0, 0),
    "mount": (165, b"none", b"/tmp", b"tmpfs", 0, 0),
    "umount": (166, b"/usr", 0),
    "pivot_root": (155, b"/", b"/tmp"),
    "chroot": (161, b"/tmp"),
    "fsopen": (430, b"tmpfs", 0),
    "open_tree": (428, -100, b"/", 1),
    "mount_setattr": (442, -100, b"/", 0, 0, 0),
    "setns": (308, 0, 0),
    "unshare_user": (272, 0x10000000),
    "unshare_net": (272, 0x40000000),
    "unshare_mount": (272, 0x00020000),
    "clone_new_user": (56, 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0),
    "clone_new_pid": (56, 0x20000000 | signal.SIGCHLD, 0, 0, 0, 0),
    "clone3": (435, 0, 0),
    "personality": (135, 0x0040000),
    "name_to_handle_at": (303, -100, b"/", 0, 0, 0),
    "open_by_handle_at": (304, -100, 0, 0),
    "init_module": (175, 0, 0, b""),
    "finit_module": (313, 0, b"", 0),
    "kexec_load": (246, 0, 0, 0, 0),
    "reboot": (169, 0xFEE1DEAD, 672274793, 0, 0),
    "syslog": (103, 3, 0, 0),
    "quotactl": (179, 0, 0, 0, 0),
    "acct": (163, 0),
    "swapon": (167, b"/tmp/x", 0),
    "iopl": (172, 3),
    "sethostname": (170, b"x", 1),
    "settimeofday": (164, 0, 0),
    "mknod_disk": (133, b"/tmp/disk", 0o060666, os.makedev(254, 0)),
    "mknod_memory": (133, b"/tmp/mem", 0o020666, os.makedev(1, 1)),
    "x32_call": (0x40000000 | 39,),
}

WRITES = {
    "root": "/owned",
    "usr": "/usr/owned",
    "etc": "/etc/ld.so.preload",
    "passwd": "/etc/passwd",
    "source": "/source/solution.py",
    "source_new": "/source/more.py",
    "built": "/built/x.so",
    "shim": "/judge/evaluator/arena/rank/shim.py",
    "site_packages": os.path.join(os.path.dirname(os.path.dirname(torch.__file__)), "owned.pth"),
    "standard_library": os.__file__,
    "bytecode": os.path.join(os.path.dirname(os.__file__), "__pycache__", "owned.pyc"),
    "core_pattern": "/proc/sys/kernel/core_pattern",
    "sysrq": "/proc/sysrq-trigger",
    "drop_caches": "/proc/sys/vm/drop_caches",
    "device": "/dev/owned",
}

READS = {
    "secret_file": HOST.get("file", ""),
    "checkout": f"{HOST.get('checkout', '')}/manage.py",
    "shadow": "/etc/shadow",
    "machine_id": "/etc/machine-id",
    "kernel_memory": "/proc/kcore",
    "kernel_log": "/dev/kmsg",
    "memory_device": "/dev/mem",
    "disk": "/dev/vda",
    "virtualisation": "/dev/kvm",
    "fuse": "/dev/fuse",
    "tunnel": "/dev/net/tun",
    "loop": "/dev/loop-control",
    "gpu": "/dev/nvidiactl",
    "uinput": "/dev/uinput",
    "cgroup": "/sys/fs/cgroup/cgroup.procs",
}

FOLDERS = ("/home", "/root/.ssh", "/var/log", "/var/lib", "/oldroot", "/mnt", "/run", "/sys", "/boot", "/opt")


def probe():
    attempt("network_tcp", lambda: connect(socket.AF_INET, ("1.1.1.1", 53)))
    attempt("network_tcp6", lambda: connect(socket.AF_INET6, ("2606:4700:4700::1111", 53)))
    attempt("network_udp", send_datagram)
    attempt("network_names", lambda: socket.getaddrinfo("example.org", 80))
    attempt("host_port", lambda: connect(socket.AF_INET, ("127.0.0.1", HOST["port"])))
    attempt("host_abstract_socket", lambda: connect(socket.AF_UNIX, "\0" + HOST["abstract"]))
    attempt("host_socket_file", lambda: connect(socket.AF_UNIX, HOST["socket"]))
    attempt("raw_socket", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
    attempt("packet_socket", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
    attempt("vsock", lambda: socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM))
    attempt("netlink_audit", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 9))
    for name, path in READS.items():
        attempt(f"read_{name}", lambda path=path: read(path))
    for name, path in WRITES.items():
        attempt(f"write_{name}", lambda path=path: write(path))
    for path in FOLDERS:
        attempt(f"list_{path}", lambda path=path: none_of(set(os.listdir(path)) - on_the_way_to_python(path)))
    attempt("symlink_in_source", lambda: os.symlink("/etc", "/source/link"))
    attempt("through_init", lambda: through_root_of(1))
    attempt("through_parent", lambda: through_root_of(os.getppid()))
    attempt("other_groups", lambda: none_of(os.listdir(HOST["work_dir"])))
    attempt("left_from_before", lambda: none_of(left_from_before()))
    attempt("host_process_signal", lambda: os.kill(HOST["pid"], 0))
    attempt("host_process_memory", lambda: read(f"/proc/{HOST['pid']}/mem"))
    attempt("processes", lambda: none_of(line for line in foreign_processes() if b"bwrap" not in line))
    attempt("secrets_of_processes", lambda: none_of(readable_secrets()))
    attempt("kill_init", lambda: [os.kill(1, signal.SIGKILL), os.kill(1, 0), none_of([])])
    attempt("priority", lambda: os.setpriority(os.PRIO_PROCESS, 0, -5))
    attempt("real_time", lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)))
    attempt("score_of_memory", lambda: write_text("/proc/self/oom_score_adj", "-1000"))
    attempt("descriptors", lambda: none_of(inherited_descriptors()))
    attempt("channels_of_others", lambda: none_of(channels_of_others()))
    attempt("standard_input", lambda: os.read(0, 1) or none_of([]))
    attempt("environment", lambda: none_of(environment()))
    attempt("host_name", lambda: none_of([socket.gethostname()] if socket.gethostname() == HOST["name"] else []))
    attempt("planted_module", planted_module)
    attempt("judge_modules", lambda: __import__("evaluator.host").host)
    attempt("oracle_modules", lambda: __import__("evaluator.oracle").oracle)
    attempt("problems", lambda: __import__("problems"))
    attempt("set_user", lambda: os.setuid(0))
    attempt("set_group", lambda: os.setgid(0))
    attempt("set_groups", lambda: os.setgroups([0]))
    attempt("set_uid_shell", mode_that_gives_root)
    for program in ("su", "sudo", "mount", "newuidmap", "pkexec"):
        attempt(f"run_{program}", lambda program=program: become_root_by(program))
    attempt("raise_limit", raise_limit)
    for name, arguments in CALLS.items():
        attempt(f"call_{name}", lambda arguments=arguments: system_call(*arguments))


def write_text(path, text):
    with open(path, "w") as file:
        file.write(text)


if HOST and os.environ["RANK"] == "0":
    probe()


def solution(tensor):
    out = tensor.clone()
    dist.all_reduce(out)
    return out
