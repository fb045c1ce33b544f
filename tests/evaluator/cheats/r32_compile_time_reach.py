"""Row 32, compile-time attack: while it is built it forks, fills the disk, looks for a network and plants files.

Problem: allreduce
Mode: check
Backend: cuda
Judged: built
Accepted: LIMIT_EXCEEDED
"""

import os
import pathlib
import socket
import sys

from utils.cuda_helpers import compile_cuda_extension

_CHILDREN = 40  # varied 20 to 60
_MARK = "planted_by_a_build"


def _try(action):
    try:
        return action()
    except OSError:
        return None


for _ in range(_CHILDREN):
    if _try(os.fork) == 0:
        while True:
            pass
for _folder in ("/source", "/built", "/usr", "/tmp", "/etc", str(pathlib.Path.home()), sys.prefix):
    _try(lambda: pathlib.Path(_folder, _MARK).write_text("import os\n"))
_try(lambda: socket.create_connection(("1.1.1.1", 53), timeout=0.2))
_try(lambda: pathlib.Path("/tmp/filling").write_bytes(b"x" * 2**20))


def extension():
    return compile_cuda_extension("never_built", "int main() { return 0; }")


def solution(tensor):
    return extension().run(tensor)
