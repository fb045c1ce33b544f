"""Programs, archives and builds that try to break the judge, made from a seed: the attacks of the catalogue, mixed."""

import io
import json
import random
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

from evaluator.contract import SourceBundle, SourceFile
from tests.evaluator.cheat_corpus import programs, varied

SUBMISSIONS = Path(__file__).parent / "submissions"

_HEAD = """import contextlib, fcntl, gc, json, mmap, os, random, signal, socket, stat, struct, sys, threading, time

import torch
import torch.distributed as dist

_dice = random.Random({seed})
_calls = 0


def _descriptors(kind):
    for name in sorted(os.listdir("/proc/self/fd"), key=int):
        with contextlib.suppress(OSError):
            if os.readlink("/proc/self/fd/" + name).startswith(kind):
                yield int(name)


def _right(tensor):
    out = tensor.clone()
    dist.all_reduce(out)
    return out


"""

_RECORDS = """def _attack():
    for descriptor in _descriptors("socket:"):
        with contextlib.suppress(OSError):
            channel = socket.socket(fileno=os.dup(descriptor))
            for _ in range(_dice.randrange(1, 4)):
                packet = struct.pack("<4sIIqqqI", b"PKBr", _dice.randrange(9), _dice.choice([0, _calls, _calls + 1]),
                                     _dice.choice([0, 5, -1, 2**62]), _dice.randrange(-2, 8), 0, 0)
                packet = packet[:_dice.choice([len(packet), len(packet), _dice.randrange(1, len(packet))])]
                packet += bytes(_dice.choice([0, 0, 1, 5000]))
                rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", 1))] * _dice.randrange(2)
                channel.sendmsg([packet], rights)
            if _dice.random() < 0.2:
                channel.shutdown(socket.SHUT_RDWR)
"""

_HEADERS = """def _attack():
    odd = [-1, 0, 1, 2**31, 2**40, 2**63 - 1, 2**64, 1.5, "x", None, [], [2**40] * 17]
    def store(output, *_):
        entry = {"dtype": _dice.choice(["bfloat16", "bool", "float64", "nonsense", "\\x1b[31m", "float4_e2m1fn_x2"]),
                 "shape": [_dice.choice(odd[:7]) for _ in range(_dice.randrange(4))],
                 "device": _dice.choice(["cpu", "cuda", "meta", ""]), "start": _dice.choice([65536, 65552, *odd])}
        for _ in range(_dice.randrange(2)):
            entry[_dice.choice([*entry, "more"])] = _dice.choice(odd)
        text = json.dumps([entry] * _dice.choice([0, 1, 1, 2, 300])).encode()
        if _dice.random() < 0.2:
            text = bytes(_dice.randrange(256) for _ in range(50))
        length = _dice.choice([len(text), len(text), 0, 2**63, 65528])
        whole = (struct.pack("<Q", length) + text)[:65536]
        output[: len(whole)] = whole
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("evaluator.arena"):
            for name in ("store_outputs", "describe_outputs"):
                if hasattr(module, name):
                    setattr(module, name, store)
"""

_STATUS_PAGES = """def _attack():
    for descriptor in _descriptors("/memfd:"):
        with contextlib.suppress(OSError, ValueError):
            choice = _dice.randrange(4)
            if choice == 0:
                fcntl.fcntl(descriptor, fcntl.F_SETFL, _dice.choice([os.O_APPEND, os.O_NONBLOCK, os.O_DIRECT]))
            elif choice == 1:
                os.ftruncate(descriptor, _dice.choice([0, 1, 10**9]))
            elif choice == 2:
                size = os.fstat(descriptor).st_size
                page = mmap.mmap(descriptor, size)
                for _ in range(200):
                    page[_dice.randrange(min(size, 65536))] = _dice.randrange(256)
            else:
                os.pwrite(descriptor, bytes(_dice.randrange(256) for _ in range(9000)), _dice.randrange(30000))
"""

_PROCESSES = """def _attack():
    import ctypes
    libc = ctypes.CDLL(None)
    for _ in range(_dice.randrange(1, 5)):
        if os.fork() == 0:
            for signal_number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(signal_number, signal.SIG_IGN)
            with contextlib.suppress(OSError):
                os.setsid()
            libc.prctl(15, bytes(_dice.randrange(1, 256) for _ in range(12)), 0, 0, 0)
            if _dice.random() < 0.3:
                os.kill(os.getppid(), _dice.choice([signal.SIGSTOP, signal.SIGCONT, signal.SIGUSR1, signal.SIGUSR2]))
            while True:
                time.sleep(1)
    if _dice.random() < 0.3:
        for name in os.listdir("/proc"):
            if name.isdigit() and int(name) != os.getpid():
                with contextlib.suppress(OSError):
                    os.kill(int(name), _dice.choice([signal.SIGKILL, signal.SIGSTOP, signal.SIGABRT]))
"""

_SHIM = """def _attack():
    shim = sys.modules["evaluator.arena.rank.shim"]
    name = _dice.choice(["_load", "_go", "_store", "_loop", "report", "_receive", "_read"])
    what = _dice.choice(["exit", "raise", "nothing", "wait"])
    code = _dice.choice([0, 1, 70, 71, 255])
    def broken(*arguments, **named):
        if what == "exit":
            os._exit(code)
        if what == "raise":
            raise RuntimeError("\\udcff\\x00 out of memory")
        if what == "wait":
            time.sleep(60)
    setattr(shim.Shim, name, broken)
"""

_PRINTS = """def _attack():
    raw = bytes(_dice.randrange(256) for _ in range(1000)) * _dice.choice([1, 2000])
    os.write(_dice.choice([1, 2]), raw[:60000])
    for _ in range(_dice.randrange(3)):
        for descriptor in _descriptors("pipe:"):
            with contextlib.suppress(OSError):
                os.write(descriptor, raw[:4000])
    if _dice.random() < 0.4:
        raise RuntimeError(("\\x1b[31m\\u202e" + chr(_dice.randrange(0x20, 0xd7ff))) * 5000)
"""

_CLOSES = """def _attack():
    for descriptor in range(3, 80):
        if _dice.random() < 0.5:
            with contextlib.suppress(OSError):
                os.close(descriptor) if _dice.random() < 0.5 else os.dup2(_dice.randrange(3), descriptor)
"""

_ATTACKS = {
    "records": _RECORDS,
    "headers": _HEADERS,
    "status_pages": _STATUS_PAGES,
    "processes": _PROCESSES,
    "shim": _SHIM,
    "prints": _PRINTS,
    "closes": _CLOSES,
}

_TAIL = """

def solution(tensor):
    global _calls
    _calls += 1
    if _calls == {call} and dist.get_rank() in {ranks}:
        _attack()
        {then}
    return {value}


if {at_import}:
    _attack()
"""


def attack(kind: str, dice: random.Random) -> SourceBundle:
    """A program that makes one kind of attack at import or in one of its first calls, then goes on in some way."""
    then = dice.choice(
        ["pass", "pass", "time.sleep(60)", "os._exit(3)", "raise KeyError(1)", "sys.exit(0)", "gc.collect()"]
    )
    tail = _TAIL.format(
        call=dice.randrange(1, 4),
        ranks=dice.choice(["(0,)", "(1,)", "(0, 1)"]),
        then=then,
        value=dice.choice(
            ["_right(tensor)", "_right(tensor)", "tensor.clone()", "None", "[tensor] * 3", "tensor.to('meta')"]
        ),
        at_import=dice.random() < 0.2,
    )
    return _bundle(_HEAD.replace("{seed}", str(dice.randrange(2**32))) + _ATTACKS[kind] + tail)


def _bundle(text: str, *more: tuple[str, str]) -> SourceBundle:
    files = [SourceFile(path="solution.py", text=text), *(SourceFile(path=path, text=body) for path, body in more)]
    return SourceBundle(files=tuple(files))


_BITS = (
    "\n", "\t", "    ", "(", ")", "[", "]", "{", "}", ":", "'''", '"""', "#", "\\", "\f", "\x1b", "\x85", "\u2028",
    "# coding: utf-7\n", "lambda: ", "*", "**", "@", ":=", "global solution\n", "import *", "\r", "\ufeff",
    "\u202e", "=",
)  # fmt: skip


def mutated_source(dice: random.Random) -> SourceBundle:
    """A program of the corpus with pieces of it moved, doubled, cut or replaced."""
    known = [program.text for program in programs().values() if program.problem == "allreduce"]
    known += [path.read_text(encoding="utf-8") for path in SUBMISSIONS.glob("*.py")]
    text = varied(dice.choice(known), dice)
    for _ in range(dice.randrange(1, 8)):
        at = dice.randrange(len(text) + 1)
        end = min(len(text), at + dice.randrange(1, 40))
        text = dice.choice(
            [
                text[:at] + dice.choice(_BITS) * dice.choice([1, 1, 3, 500]) + text[at:],
                text[:at] + text[end:],
                text[:end] + text[at:end] + text[end:],
                text[:at] + chr(dice.randrange(1, 0xD7FF)) + text[end:],
            ]
        )
    return _bundle(text[:500_000])


_NAMES = (
    "a.py",
    "a.py/b.py",
    "A.PY",
    "solution.py/x.py",
    "../x.py",
    "/x.py",
    "x" * 260,
    "é" * 120 + ".py",
    "k.cu",
    "",
    "a//b.py",
    "\0.py",
    "con\x1b.py",
)


def odd_paths(dice: random.Random) -> SourceBundle:
    """A correct program beside files with impossible paths."""
    text = (SUBMISSIONS / "correct.py").read_text(encoding="utf-8")
    return _bundle(text, *((dice.choice(_NAMES), "x = 1\n") for _ in range(dice.randrange(1, 5))))


def archive(dice: random.Random) -> bytes:
    """A zip with a correct program and odd members, sometimes damaged."""
    buffer = io.BytesIO()
    packing = dice.choice(
        [zipfile.ZIP_DEFLATED, zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2]
    )
    with zipfile.ZipFile(buffer, "w", packing) as file:
        file.writestr("solution.py", (SUBMISSIONS / "correct.py").read_text(encoding="utf-8"))
        for _ in range(dice.randrange(4)):
            member = zipfile.ZipInfo("x")
            member.filename = dice.choice(_NAMES)
            file.writestr(member, bytes(dice.randrange(256) for _ in range(dice.randrange(60))))
    raw = bytearray(buffer.getvalue())
    for _ in range(dice.choice([0, 0, 1, 5, 30])):
        raw[dice.randrange(len(raw))] = dice.randrange(256)
    return bytes(raw[: dice.choice([len(raw), len(raw), dice.randrange(len(raw))])])


def build(dice: random.Random) -> SourceBundle:
    """A program whose build sends the host what it likes."""
    name = f"{dice.randrange(16**32):032x}/m.so"
    names = [name, "result.json", "../../x.so", "triton/" + "A" * 52 + "/k.cubin", name + "/y", "\0", "x" * 300]
    log = "x.cu(3): error: no"
    one = {"name": "x", "succeeded": False, "seconds": 1.0, "log": log, "is_certain": True, "file": None, "line": 1}
    outcome = {"extensions": [one] * dice.choice([0, 1, 300]), "notes": ["n" * dice.choice([1, 10**6])]}
    for _ in range(dice.randrange(3)):
        outcome[dice.choice(["extensions", "notes", "more"])] = dice.choice([None, 1, [[]], "x" * 10**6, [{"name": 1}]])
    frames = b"".join(
        struct.pack(
            "<4sIQ",
            dice.choice([b"PKBf", b"PKBf", b"xxxx"]),
            len(name.encode()),
            dice.choice([len(body), len(body), 2**62]),
        )
        + name.encode()
        + body
        for name, body in (
            (dice.choice(names), bytes(dice.randrange(256) for _ in range(50))) for _ in range(dice.randrange(6))
        )
    )
    result = json.dumps(outcome).encode()
    frames += struct.pack("<4sIQ", b"PKBf", 11, len(result)) + b"result.json" + result
    end = dice.choice(["os._exit(0)", "os._exit(1)", "os.kill(os.getpid(), 9)", "pass", "raise SystemExit(3)"])
    text = (
        "import json, os, sys\nfrom utils.cuda_helpers import compile_cuda_extension\n"
        f"data = bytes.fromhex({frames.hex()!r})\nif len(sys.argv) > 1:\n    out = json.loads(sys.argv[1])['output']\n"
        f"    while data:\n        data = data[os.write(out, data):]\n    {end}\n"
        "def solution(tensor):\n    return tensor\n"
    )
    return _bundle(text)


JUDGED: dict[str, Callable[[random.Random], SourceBundle]] = {
    **{kind: (lambda dice, kind=kind: attack(kind, dice)) for kind in _ATTACKS},  # type: ignore[misc]
    "sources": mutated_source,
    "paths": odd_paths,
}
"""What the whole judge runs: a maker of submissions for each kind."""
