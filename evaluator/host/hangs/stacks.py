"""Reads the stacks that a rank dumped: untrusted text, which shows the author where a rank waits."""

import dataclasses
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

_FRAME = re.compile(r'^\s*File "(?P<file>[^"]{1,500})", line (?P<line>\d{1,7}) in (?P<name>\S{1,200})$')
_TRACED = re.compile(r'^\s*File "(?P<file>[^"]{1,500})", line (?P<line>\d{1,7})(?:, in (?P<name>\S{1,200}))?$')
_THREAD = re.compile(r"^(Current thread|Thread) 0x")
_ANSWERS_AT_ONCE = re.compile(r"_?(get|is|has)_")
"""Functions such as `get_rank`: a loop that calls one is often caught inside it, and waits for nobody there."""


@dataclass(frozen=True, kw_only=True)
class Frame:
    """One frame of a Python stack."""

    file: str
    line: int
    name: str


def _threads(dump: str) -> list[list[Frame]]:
    """The frames of every thread, innermost first."""
    threads: list[list[Frame]] = [[]]
    for text in dump.splitlines():
        if _THREAD.match(text):
            threads.append([])
        elif match := _FRAME.match(text):
            threads[-1].append(Frame(file=match["file"], line=int(match["line"]), name=match["name"]))
    return threads


def _runs_shim(frames: list[Frame]) -> bool:
    return any(frame.file.endswith("evaluator/arena/rank/shim.py") for frame in frames)


def main_thread(dump: str) -> tuple[Frame, ...]:
    """The frames of the thread that runs our shim, innermost first; empty where the dump does not show it."""
    return next((tuple(frames) for frames in _threads(dump) if _runs_shim(frames)), ())


_OURS = "/evaluator/arena/rank/"
_IDLE_WORKER = ("concurrent/futures/thread.py", "_worker")
"""Where a thread of a pool waits for work, which only another running thread can give it."""


def has_threads_that_may_act(dump: str) -> bool:
    """Whether a thread other than the shim's might still act.

    Every thread may act that is neither ours nor an idle thread of a pool. A timer on a library function has no frame
    of the submission, and acts all the same.
    """
    others = [frames for frames in _threads(dump) if frames and not _runs_shim(frames)]
    file, name = _IDLE_WORKER
    return not all(
        any(_OURS in frame.file for frame in frames) or (frames[0].name == name and frames[0].file.endswith(file))
        for frames in others
    )


_NATIVE = re.compile(r"^\s*frame #\d+: (?P<what>.{1,300}?) \(0x[0-9a-f]+ in (?P<library>[^()]{1,300})\)$")
_NATIVE_THREAD = re.compile(r"^SIG\w+\(\d+\), PID: \d+, Thread (?P<thread>\d+):")
_HANDLER = "c10::FatalSignalHandler"
_HANDLE = re.compile(r"c10d::[\w:]*Work::wait\(")
_DEVICE = re.compile(r"^  cu(da)?(Stream|Event|Device|Ctx)Synchronize\b", re.MULTILINE)
_NATIVE_FRAMES = 14
_NATIVE_THREADS = 12


def native(text: str) -> str:
    """The native stacks that torch's signal handler printed, readable: function and library, innermost first.

    The handler's own frames and addresses are left out, and so are threads that only wait for work. Untrusted text:
    lines of another form are skipped.
    """
    threads: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if match := _NATIVE_THREAD.match(line):
            threads.append((match["thread"], []))
        elif threads and (match := _NATIVE.match(line)) and _HANDLER not in match["what"]:
            threads[-1][1].append(f"{match['what']} in {PurePosixPath(match['library']).name}")
        elif threads and line.strip() == "<omitting python frames>":
            threads[-1][1].append("(Python)")
    # After the handler's frames comes the kernel's trampoline in libc, which says nothing.
    shown = [(thread, frames[1 : 1 + _NATIVE_FRAMES]) for thread, frames in threads[:_NATIVE_THREADS]]
    parts = ["\n".join([f"thread {thread}:", *(f"  {frame}" for frame in frames)]) for thread, frames in shown]
    return "\n\n".join(parts)


def waits_for_handle(stacks: str) -> bool:
    """Whether the first thread in `stacks`, as `native` gives them, waits for an operation that it began before.

    `work.wait()` runs no Python of torch, so the Python stack ends in the submission, as that of `time.sleep` does.
    """
    return _HANDLE.search(stacks.partition("\n\n")[0]) is not None


def waits_for_device(stacks: str) -> bool:
    """Whether the first thread in `stacks`, as `native` gives them, waits until its GPU has done what is queued.

    A copy to the host does so, and a copy from pageable memory. The driver's wait takes processor time.
    """
    return _DEVICE.search(stacks.partition("\n\n")[0]) is not None


def own_frame(frames: Iterable[Frame], *, source: str) -> Frame | None:
    """The first frame that lies in the submission, its file relative to `source`."""
    own = next((frame for frame in frames if frame.file.startswith(f"{source}/")), None)
    return own and dataclasses.replace(own, file=own.file.removeprefix(f"{source}/"))


def traced(traceback: str) -> Iterator[Frame]:
    """The frames of a traceback, the last one first; the place of a syntax error counts as one."""
    for text in reversed(traceback.splitlines()):
        if match := _TRACED.match(text):
            yield Frame(file=match["file"], line=int(match["line"]), name=match["name"] or "")


def waits_in(frames: tuple[Frame, ...], *, source: str) -> str | None:
    """The function of torch.distributed (or torch.cuda) in which the submission waits, by its name; else None."""
    name = None
    for frame in frames:
        if frame.file.startswith(f"{source}/"):
            break
        is_waiting = "/torch/distributed/" in frame.file or "/torch/cuda/" in frame.file
        if is_waiting and frame.name not in {"wrapper", "_wrapper", "inner"}:
            name = frame.name
    return None if name is None or _ANSWERS_AT_ONCE.match(name) else name


def words(frame: Frame) -> str:
    """A frame of `own_frame` as `solution.py:12`."""
    return f"{frame.file}:{frame.line}"
