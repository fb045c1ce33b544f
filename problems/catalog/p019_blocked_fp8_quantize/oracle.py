"""The expected outputs: codes by correctly rounded division, scales in float64."""

import torch
from torch import Tensor

from problems.catalog.p019_blocked_fp8_quantize.inputs import make_inputs
from problems.inputs.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`y` (W*M, N) as 8-bit floats and `s` (W*M, NB)."""
    quantised = [_quantised(call.at_rank(rank)) for rank in range(call.world_size)]
    codes, scales = zip(*quantised, strict=True)
    return torch.cat(codes), torch.cat(scales)


def _quantised(call: Call) -> tuple[Tensor, Tensor]:
    """One rank's codes and scales. The quotient is taken in float32, whose rounding decides ties between codes."""
    arguments = make_inputs(call)
    local = arguments["local_tensor"]
    blocks = local.view(local.shape[0], -1, arguments["block_size"])
    largest = blocks.abs().amax(dim=-1)
    divisor = largest.float() / 448
    divisor = divisor.where(divisor > 0, 1.0).unsqueeze(-1)
    codes = (blocks.float() / divisor).clamp(-448, 448).to(torch.float8_e4m3fn)
    return codes.flatten(-2), largest.double() / 448
