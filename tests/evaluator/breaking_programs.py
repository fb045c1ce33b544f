"""Programs that try to break the judge or to hold its slot: what hangs, what exhausts, and what outputs can be.

`HANGING` give no answer in time, `EXHAUSTING` use something up, `RETURNING` return what is no usual tensor.
"""

import textwrap

_HEAD = """import ctypes, fcntl, gc, mmap, os, signal, socket, sys, threading, time

import torch
import torch.distributed as dist

_calls = 0


def _right(tensor):
    out = tensor.clone()
    dist.all_reduce(out)
    return out


def _others():
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]


def _stop_all(number=signal.SIGSTOP):
    for pid in _others():
        try:
            os.kill(pid, number)
        except OSError:
            pass


def _child(work):
    pid = os.fork()
    if pid:
        return pid
    for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(name, signal.SIG_IGN)
    os.setsid()
    work()
    while True:
        time.sleep(1)
"""


def _program(before: str, call: str = "return _right(tensor)") -> str:
    """A program with `before` at its top level, and a `solution` that counts its calls and runs `call`."""
    body = textwrap.indent(call.strip(), "    ")
    return f"{_HEAD}{before.strip()}\n\n\ndef solution(tensor):\n    global _calls\n    _calls += 1\n{body}\n"


def _in_call(call: str, *, before: str = "") -> str:
    return _program(before, call)


HANGING = {
    "loops at import": _program("""
while True:
    pass
"""),
    "sleeps in the library at import": _program("""
while True:
    ctypes.CDLL(None).sleep(3600)
"""),
    "loops in a call": _in_call("""
while True:
    pass
"""),
    "holds the interpreter in a call": _in_call("""
import re
re.match('(a+)+b', 'a' * 60)
"""),
    "stops itself": _in_call("os.kill(os.getpid(), signal.SIGSTOP)"),
    "stops every process that it sees": _in_call("""
_stop_all()
return _right(tensor)
"""),
    "stops itself and its peers at import": _program("""
_stop_all()
os.kill(os.getpid(), signal.SIGSTOP)
"""),
    "is just in time in every call": _in_call("""
time.sleep(1.8)
return _right(tensor)
"""),
    "locks that nobody opens": _in_call("""
lock = threading.Lock()
lock.acquire()
lock.acquire()
"""),
    "a kernel of the operating system that waits": _in_call("""
r, w = os.pipe()
os.read(r, 1)
"""),
    "a thread that works on after the call": _in_call("""
threading.Thread(target=lambda: [sum(range(10**6)) for _ in range(10**6)]).start()
return _right(tensor)
"""),
    "an atexit function that hangs, then an exit": _in_call(
        "sys.exit(0)",
        before="""
import atexit
atexit.register(lambda: time.sleep(3600))
""",
    ),
    "traces itself": _in_call("""
pid = _child(lambda: None)
ctypes.CDLL(None).ptrace(16, pid, 0, 0)
os.waitpid(pid, 0)
"""),
    "vfork that never returns": _in_call("""
import subprocess
subprocess.run(['/bin/sh', '-c', 'kill -STOP $$'])
"""),
}

EXHAUSTING = {
    "forks without end at import": _program("""
while True:
    try:
        os.fork()
    except OSError:
        pass
"""),
    "forks without end in a call": _in_call("""
for _ in range(5000):
    try:
        _child(lambda: None)
    except OSError:
        break
return _right(tensor)
"""),
    "threads without end": _in_call("""
try:
    for _ in range(5000):
        threading.Thread(target=time.sleep, args=(3600,)).start()
except RuntimeError:
    pass
return _right(tensor)
"""),
    "children with shared memory mapped": _in_call("""
area = mmap.mmap(-1, 1 << 28)
area[::4096] = bytes(1 << 16)
for _ in range(60): _child(lambda: area.__getitem__(slice(None, None, 4096)))
return _right(tensor)
"""),
    "descriptors without end": _in_call("""
try:
    while True:
        os.dup(0)
except OSError:
    pass
return _right(tensor)
"""),
    "fills /dev/shm": _in_call("""
try:
    with open('/dev/shm/x', 'wb') as file:
        for _ in range(600):
            file.write(bytes(1 << 24))
except OSError:
    pass
return _right(tensor)
"""),
    "files without end": _in_call("""
try:
    for number in range(200_000):
        open('/tmp/%d' % number, 'w').close()
except OSError:
    pass
return _right(tensor)
"""),
    "folders in folders": _in_call("""
os.chdir('/tmp')
try:
    for _ in range(20_000):
        os.mkdir('d')
        os.chdir('d')
except OSError:
    pass
return _right(tensor)
"""),
    "watches of inotify without end": _in_call("""
libc = ctypes.CDLL(None)
for _ in range(2000):
    fd = libc.inotify_init1(0)
    if fd < 0:
        break
    libc.inotify_add_watch(fd, b'/tmp', 0xfff)
return _right(tensor)
"""),
    "keys of the kernel without end": _in_call("""
libc = ctypes.CDLL(None)
for number in range(5000):
    if libc.syscall(248, b'user', b'k%d' % number, bytes(1000), 1000, -4) < 0:
        break
return _right(tensor)
"""),
    "queues and semaphores of System V": _in_call("""
libc = ctypes.CDLL(None)
for _ in range(40_000):
    if libc.semget(0, 1, 0o1600) < 0 and libc.shmget(0, 4096, 0o1600) < 0:
        break
return _right(tensor)
"""),
    "sockets that pass each other": _in_call("""
import array
for _ in range(200):
    a, b = socket.socketpair()
    a.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [a.fileno(), b.fileno()]))])
    os.close(a.detach())
    os.close(b.detach())
return _right(tensor)
"""),
    "prints without end": _in_call("""
end = time.monotonic() + 3
while time.monotonic() < end:
    os.write(1, b'x' * 65536)
    os.write(2, b'y' * 65536)
return _right(tensor)
"""),
    "signals its parent and its group": _in_call("""
for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD, signal.SIGCONT, signal.SIGWINCH, signal.SIGTERM):
    for pid in (os.getppid(), 0, -1, 1):
        try:
            os.kill(pid, number)
        except OSError:
            pass
return _right(tensor)
"""),
    "every signal to the launcher": _in_call("""
for number in range(1, 65):
    if number != signal.SIGKILL:
        try:
            os.kill(1, number)
        except OSError:
            pass
return _right(tensor)
"""),
    "limits for the launcher": _in_call("""
import resource
for kind in (resource.RLIMIT_CPU, resource.RLIMIT_AS, resource.RLIMIT_DATA, resource.RLIMIT_STACK):
    try:
        resource.prlimit(1, kind, (0, 0))
    except PermissionError:
        continue
    raise RuntimeError('the launcher has another limit')
return _right(tensor)
"""),
    "names of processes with control characters": _in_call("""
ctypes.CDLL(None).prctl(15, b'\\x1b[2J\\n) R 1\\xff', 0, 0, 0)
threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
return _right(tensor)
"""),
    "an error of many megabytes": _in_call("raise RuntimeError('\\x00\\udcff\\u202e' * 5_000_000)"),
    "an error that cannot be told": _in_call(
        "raise E",
        before="""
class E(Exception):
    def __str__(self):
        raise self
    __repr__ = __str__
""",
    ),
    "an error caused by itself": _in_call("""
a = ValueError('a'); b = ValueError('b'); a.__cause__ = b; b.__cause__ = a
raise a
"""),
    "errors that hold each other, 5,000 deep": _in_call("""
error = None
for _ in range(5000):
    new = ValueError('x' * 100); new.__context__ = error; error = new
raise error
"""),
    "an end by another exception than Exception": _in_call("raise GeneratorExit"),
    "memory without end": _in_call("""
held = []
try:
    for _ in range(64):
        held.append(bytearray(os.urandom(1)) * (1 << 28))
except MemoryError:
    pass
held.clear()
return _right(tensor)
"""),
}

RETURNING = {
    "a million tensors": _in_call("return [tensor] * 1_000_000"),
    "a tuple 100,000 deep": _in_call("""
value = tensor
for _ in range(100_000):
    value = (value,)
return value
"""),
    "a list that holds itself": _in_call("""
value = []
value.append(value)
return value
"""),
    "a dict of a million": _in_call("return {number: tensor for number in range(1_000_000)}"),
    "expanded by a stride of nothing": _in_call("return tensor.flatten()[:1].expand(2**40)"),
    "expanded to the right shape": _in_call("return tensor.flatten()[:1].expand(tensor.shape)"),
    "a view of the input": _in_call("return tensor"),
    "a view of half the input": _in_call("return tensor[::2]"),
    "sparse": _in_call("return _right(tensor).to_sparse()"),
    "sparse by rows": _in_call("return _right(tensor).reshape(-1, 1).to_sparse_csr()"),
    "complex": _in_call("return _right(tensor).to(torch.complex64)"),
    "conjugated lazily": _in_call("return _right(tensor).to(torch.complex64).conj()"),
    "quantised": _in_call("""
return torch.quantize_per_tensor(_right(tensor).float(), 0.1, 0, torch.qint8)
"""),
    "without elements": _in_call("return tensor[:0]"),
    "of 64 dimensions": _in_call("return tensor.flatten()[:1].reshape([1] * 64)"),
    "of no device": _in_call("return torch.empty(2**50, device='meta')"),
    "nested": _in_call("return torch.nested.nested_tensor([tensor, tensor])"),
    "a subclass that overrides everything": _in_call(
        "return _right(tensor).as_subclass(T)",
        before="""
class T(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, arguments=(), named=None):
        time.sleep(3600)
""",
    ),
    "a tensor whose storage was freed": _in_call("""
out = _right(tensor)
out.untyped_storage().resize_(0)
return out
"""),
    "NaN with other bits": _in_call("""
out = _right(tensor)
out.view(torch.int16)[...] = 0x7fc1
return out
"""),
    "NaN in one element": _in_call("""
out = _right(tensor)
out.flatten()[:1] = float('nan')
return out
"""),
    "that need a gradient": _in_call("return _right(tensor).requires_grad_()"),
    "of inference mode": _in_call("""
with torch.inference_mode():
    return _right(tensor) * 1
"""),
    "a generator": _in_call("return (x for x in iter(int, 1))"),
    "a number with 10,000 digits": _in_call("return 10**10_000"),
    "numbers with 10,000 digits": _in_call("return [10**10_000]"),
    "a type with a long name": _in_call("return type('x' * 10**6 + '\\u202e', (), {})()"),
    "a type that pretends to be a list": _in_call(
        "return L()",
        before="""
class L(list):
    def __len__(self):
        return 10**9
    def __iter__(self):
        return iter(int, 1)
""",
    ),
}

PROGRAMS = {**HANGING, **EXHAUSTING, **RETURNING}
"""All of them by name."""
