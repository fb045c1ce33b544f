"""Row 32, compile-time attack: a few lines that the preprocessor expands without end.

Problem: allreduce
Mode: check
Backend: cuda
Judged: built
Accepted: LIMIT_EXCEEDED
"""

from utils.cuda_helpers import compile_cuda_extension

_DEPTH = 34  # varied 32 to 40
_STEPS = "\n".join(f"#define T{step} T{step - 1} T{step - 1}" for step in range(1, _DEPTH))
_CUDA = f"#include <Python.h>\n#define T0 +1\n{_STEPS}\nlong total = 0 T{_DEPTH - 1};\n"


def extension():
    return compile_cuda_extension("expanded", _CUDA)


def solution(tensor):
    return extension().run(tensor)
