"""Twin of row 32: a module whose source is put together by a program, with long tables and many includes.

Problem: allreduce
Mode: check
Backend: cuda
Judged: built
Accepted: PASSED
"""

from utils.cuda_helpers import compile_cuda_extension

_TABLE = ", ".join(str(number * number % 977) for number in range(2000))
_CUDA = f"""
#include <Python.h>
#include <cuda_fp16.h>
__constant__ int table[2000] = {{{_TABLE}}};
__global__ void look_up(int* out) {{ out[threadIdx.x] = table[threadIdx.x]; }}
static PyModuleDef definition = {{PyModuleDef_HEAD_INIT, "tables", nullptr, -1, nullptr}};
extern "C" __attribute__((visibility("default"))) PyObject* PyInit_tables() {{ return PyModule_Create(&definition); }}
"""


def extension():
    return compile_cuda_extension("tables", _CUDA)


def solution(tensor):
    return extension().run(tensor)
