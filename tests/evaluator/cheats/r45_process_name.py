"""Row 45, names that a census stumbles over: children whose names are no text, beside a wrong answer.

Problem: allreduce
Mode: check
Accepted: WRONG_RESULT
"""

import ctypes
import os
import time

_libc = ctypes.CDLL(None)
_CHILDREN = 3  # varied 1 to 9


def solution(tensor):
    for number in range(_CHILDREN):
        if os.fork() == 0:
            os.setsid()
            _libc.prctl(15, b"\xff\xfe) Z 1\n\x80", 0, 0, 0)
            time.sleep(600)
    return tensor.clone()
