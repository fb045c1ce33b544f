"""Programs that must pass and programs that must fail."""

import torch
import torch.distributed as dist
from torch import Tensor

from problems.catalog.p020_blocked_fp8_dequantize.reference import solution
from problems.families.rank_parts import exchange


def _exchange(tensor: Tensor) -> Tensor:
    """Chunk r of every rank, on rank r."""
    received = torch.empty_like(tensor)
    dist.all_to_all_single(received, tensor.contiguous())
    return received


def _scale(y: Tensor, s: Tensor, block_size: int) -> Tensor:
    return (y.float().view(-1, block_size) * s.float().view(-1, 1)).view(y.shape)


def scaled_on_arrival(local_y: Tensor, local_s: Tensor, block_size: int) -> Tensor:
    """Exchanges values and scales in their own dtype and multiplies afterwards: half the bytes."""
    return _scale(_exchange(local_y), _exchange(local_s), block_size)


def list_of_chunks(local_y: Tensor, local_s: Tensor, block_size: int) -> Tensor:
    """Scales chunk by chunk and sends each to its rank."""
    chunks = [_scale(y, s, block_size) for y, s in zip(local_y, local_s, strict=True)]
    received = [torch.empty_like(chunk) for chunk in chunks]
    received[dist.get_rank()] = chunks[dist.get_rank()]
    peers = [peer for peer in range(len(chunks)) if peer != dist.get_rank()]
    exchange(((chunks[peer], peer) for peer in peers), ((received[peer], peer) for peer in peers))
    return torch.stack(received)


def own_scales_on_arrival(local_y: Tensor, local_s: Tensor, block_size: int) -> Tensor:
    """Exchanges the values alone and applies its own scales."""
    return _scale(_exchange(local_y), local_s, block_size)


def products_in_input_dtype(local_y: Tensor, local_s: Tensor, block_size: int) -> Tensor:
    """Rounds every product to the run's dtype before it travels."""
    return _exchange(_scale(local_y, local_s, block_size).to(local_y.dtype)).float()


def unsigned_scales(local_y: Tensor, local_s: Tensor, block_size: int) -> Tensor:
    """Takes scales for magnitudes."""
    return solution(local_y, local_s.abs(), block_size)


def twice_the_block(local_y: Tensor, local_s: Tensor, block_size: int) -> Tensor:
    """One scale for two neighbouring blocks."""
    paired = local_s.view(-1)[::2].repeat_interleave(2)[: local_s.numel()]
    return solution(local_y, paired.view(local_s.shape), block_size)


def last_chunk_unscaled(local_y: Tensor, local_s: Tensor, block_size: int) -> Tensor:
    """Leaves the last chunk of its message unscaled."""
    ones = local_s.clone()
    ones[-1] = 1
    return solution(local_y, ones, block_size)


def saturates(local_y: Tensor, local_s: Tensor, block_size: int) -> Tensor:
    """Takes no value for more than 2^16."""
    return solution(local_y.clamp(-(2**16), 2**16), local_s, block_size)


def drops_what_is_tiny(local_y: Tensor, local_s: Tensor, block_size: int) -> Tensor:
    """Takes values below 2^-28 for zero, unless they are subnormal."""
    is_tiny = (local_y.abs() < 2.0**-28) & (local_y.abs() >= torch.finfo(local_y.dtype).tiny)
    return solution(local_y.masked_fill(is_tiny, 0), local_s, block_size)


def scales_of_one_for_zero(local_y: Tensor, local_s: Tensor, block_size: int) -> Tensor:
    """Takes a scale of zero for one that is missing, and leaves the block as it is."""
    return solution(local_y, local_s.masked_fill(local_s == 0, 1), block_size)


def blocks_of_128(local_y: Tensor, local_s: Tensor, block_size: int) -> Tensor:
    """Blocks of 128, whatever the argument says; scales without a block are left over."""
    del block_size
    blocks = local_y[0].numel() // 128
    return solution(local_y, local_s[:, :blocks].contiguous(), 128)


def blocks_up_to_1024(local_y: Tensor, local_s: Tensor, block_size: int) -> Tensor:
    """Leaves blocks of more than 1024 as they are."""
    return solution(local_y, local_s if block_size <= 1024 else torch.ones_like(local_s), block_size)


HONEST = {"scaled_on_arrival": scaled_on_arrival, "list_of_chunks": list_of_chunks}
MUTANTS = {
    "own_scales_on_arrival": own_scales_on_arrival,
    "products_in_input_dtype": products_in_input_dtype,
    "unsigned_scales": unsigned_scales,
    "twice_the_block": twice_the_block,
    "last_chunk_unscaled": last_chunk_unscaled,
}
NARROW = {
    "huge_values": saturates,
    "tiny_values": drops_what_is_tiny,
    "spread_scales": scales_of_one_for_zero,
    "other_block_size": blocks_of_128,
    "one_block": blocks_up_to_1024,
}
