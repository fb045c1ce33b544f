"""What each rank owes, in float64 and in blocks of output channels."""

from torch import Tensor
from torch.nn.functional import conv3d

from problems.catalog.p076_opensora_conv3d_allreduce.inputs import make_inputs
from problems.values import Call

_BLOCK_CHANNELS = 64


def expected(call: Call) -> tuple[Tensor, ...]:
    """`out` (B, Co, To, Ho, Wo): the sum of all ranks' convolutions plus the bias, nothing rounded in between."""
    bias = make_inputs(call)["bias"].double()
    total = bias[:, None, None, None].expand(call.shape(("B", "Co", "To", "Ho", "Wo"))).clone()
    for rank in range(call.world_size):
        arguments = make_inputs(call.at_rank(rank))
        video = arguments["input"].double()
        blocks = zip(total.split(_BLOCK_CHANNELS, dim=1), arguments["weight"].split(_BLOCK_CHANNELS), strict=True)
        for block, weight in blocks:
            block.add_(conv3d(video, weight.double()))
    return (total,)
