"""Row 28, harness code mutation: replaces torch's own comparison functions.

Problem: allreduce
Mode: check
Accepted: WRONG_RESULT
"""

import torch

for _name in ("allclose", "equal", "isclose", "isfinite"):
    setattr(torch, _name, lambda *arguments, **options: True)
torch.testing.assert_close = lambda *arguments, **options: None


def solution(tensor):
    return tensor * 2
