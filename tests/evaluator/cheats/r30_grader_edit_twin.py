"""Twin of row 30: writes a helper module into its temporary folder and imports it.

Problem: allreduce
Mode: check
Accepted: PASSED
"""

import importlib
import pathlib
import sys
import tempfile

import torch.distributed as dist

_folder = pathlib.Path(tempfile.mkdtemp())
(_folder / "written_helper.py").write_text("def double(value):\n    return 2 * value\n")
sys.path.append(str(_folder))
_helper = importlib.import_module("written_helper")


def solution(tensor):
    out = tensor.clone()
    dist.all_reduce(out)
    assert _helper.double(dist.get_world_size()) == 2 * dist.get_world_size()
    return out
