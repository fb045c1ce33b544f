"""All-gather in Triton: every program copies its piece, meets its twins on the other ranks, then reads theirs."""

import functools

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem
import triton
import triton.language as tl
from utils.triton_utils import blockwise_barrier, sync_threads

BLOCK = 4096
PROGRAMS = 32  # the signal pad holds one word per program and rank


@triton.jit
def gather(
    source, target, shards, signal_pads, words, slot_offset, rank: tl.constexpr, world: tl.constexpr,
    block: tl.constexpr,
):
    program = tl.program_id(0)
    shard_table = shards.to(tl.pointer_type(tl.uint64))
    mine = (tl.load(shard_table + rank) + slot_offset).to(tl.pointer_type(tl.int16))
    for start in range(program * block, words, tl.num_programs(0) * block):
        at = start + tl.arange(0, block)
        held = tl.load(source + at, mask=at < words)
        tl.store(mine + at, held, mask=at < words)
        tl.store(target + rank * words + at, held, mask=at < words)
    sync_threads()
    blockwise_barrier(signal_pads, program, rank, world, "acq_rel")
    sync_threads()
    for step in tl.static_range(1, world):
        peer = (rank + step) % world
        theirs = (tl.load(shard_table + peer) + slot_offset).to(tl.pointer_type(tl.int16))
        for start in range(program * block, words, tl.num_programs(0) * block):
            at = start + tl.arange(0, block)
            held = tl.load(theirs + at, mask=at < words, volatile=True)
            tl.store(target + peer * words + at, held, mask=at < words)


class Exchange:
    """Symmetric memory for one shard size, two slots by turns, and the ranks' addresses on the device."""

    def __init__(self, slot_bytes):
        device = torch.device("cuda", torch.cuda.current_device())
        self.memory = symm_mem.empty(2 * slot_bytes, dtype=torch.uint8, device=device)
        self.handle = symm_mem.rendezvous(self.memory, dist.group.WORLD)
        self.world = self.handle.world_size
        bases = [self.handle.get_buffer(peer, (1,), torch.uint8).data_ptr() for peer in range(self.world)]
        self.bases = torch.tensor(bases, dtype=torch.int64, device=device)
        self.turn = 0


@functools.cache
def exchange(slot_bytes):
    return Exchange(slot_bytes)


def solution(tensor):
    tensor = tensor.contiguous()
    bytes_ = tensor.numel() * tensor.element_size()
    if bytes_ % 2:
        raise ValueError("written for elements of 2 bytes or more")
    slot_bytes = -(-bytes_ // 256) * 256
    state = exchange(slot_bytes)
    state.turn ^= 1
    out = torch.empty((state.world, *tensor.shape), dtype=tensor.dtype, device=tensor.device)
    gather[(PROGRAMS,)](
        tensor.view(torch.int16), out.view(torch.int16), state.bases, state.handle.signal_pad_ptrs_dev, bytes_ // 2,
        state.turn * slot_bytes, state.handle.rank, state.world, BLOCK, num_warps=16,
    )
    return out
