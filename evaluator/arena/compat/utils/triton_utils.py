# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, ANN202
# Triton compiles these functions; their arguments are its values and their annotations its own.
"""Device functions for Triton kernels that talk to other ranks through the signal pads of symmetric memory.

A signal is one uint32 word in a rank's pad. The sender waits until it is 0 and makes it 1. The receiver waits until it
is 1 and makes it 0, so a pad is clean again after every meeting. PTX by the ISA manual: special registers, bar.sync,
and atom with .cas at system scope. The words of a block are block_id * world_size + sender.
"""

try:
    import triton
    import triton.language as tl
except ImportError as error:
    raise ImportError("utils.triton_utils needs Triton, which this node does not have") from error


@triton.jit
def get_tid():
    """Index of the calling thread in its block, per axis: (x, y, z)."""
    return tl.inline_asm_elementwise(
        "mov.u32 $0, %tid.x; mov.u32 $1, %tid.y; mov.u32 $2, %tid.z;",
        "=r,=r,=r",
        [],
        dtype=(tl.uint32, tl.uint32, tl.uint32),
        is_pure=True,
        pack=1,
    )


@triton.jit
def get_ntid():
    """Number of threads of the block, per axis: (x, y, z)."""
    return tl.inline_asm_elementwise(
        "mov.u32 $0, %ntid.x; mov.u32 $1, %ntid.y; mov.u32 $2, %ntid.z;",
        "=r,=r,=r",
        [],
        dtype=(tl.uint32, tl.uint32, tl.uint32),
        is_pure=True,
        pack=1,
    )


@triton.jit
def get_flat_tid():
    """Index of the calling thread in its block, as one number, x fastest."""
    x, y, z = get_tid()
    width, height, _ = get_ntid()
    return (z * height + y) * width + x


@triton.jit
def get_flat_bid():
    """Index of the block in its grid, as one number, x fastest."""
    row = tl.program_id(2) * tl.num_programs(1) + tl.program_id(1)
    return row * tl.num_programs(0) + tl.program_id(0)


@triton.jit
def sync_threads():
    """Wait for all threads of the block."""
    tl.inline_asm_elementwise("bar.sync 0; // $0", "=r", [], dtype=tl.int32, is_pure=False, pack=1)


def _exchange(order, old, new):
    """PTX that exchanges the word at each address, as soon as it is `old`, for `new`."""
    return tl.constexpr(f"""
        {{
            .reg .u32 seen;
            .reg .pred again;
            exchange:
            atom.global.{order}.sys.cas.b32 seen, [$1], {old}, {new};
            setp.ne.u32 again, seen, {old};
            @again bra exchange;
            mov.u32 $0, seen;
        }}
    """)


_RAISE_RELAXED, _RAISE_RELEASE = _exchange("relaxed", 0, 1), _exchange("release", 0, 1)
_LOWER_RELAXED, _LOWER_ACQUIRE = _exchange("relaxed", 1, 0), _exchange("acquire", 1, 0)


@triton.jit
def send_signal(addrs, sem: tl.constexpr):
    """Raise the words at `addrs` (uint64) from 0 to 1, waiting for each to be 0.

    `sem` is "relaxed", or "acq_rel" to make the caller's earlier writes visible to the receiver.
    """
    tl.static_assert((sem == "relaxed") | (sem == "acq_rel"), 'sem is "relaxed" or "acq_rel"')
    text: tl.constexpr = _RAISE_RELAXED if sem == "relaxed" else _RAISE_RELEASE
    tl.inline_asm_elementwise(text, "=r,l", [addrs], dtype=tl.int32, is_pure=False, pack=1)


@triton.jit
def wait_signal(addrs, sem: tl.constexpr):
    """Lower the words at `addrs` (uint64) from 1 to 0, waiting for each to be 1.

    `sem` is "relaxed", or "acq_rel" to see what the sender wrote before its signal.
    """
    tl.static_assert((sem == "relaxed") | (sem == "acq_rel"), 'sem is "relaxed" or "acq_rel"')
    text: tl.constexpr = _LOWER_RELAXED if sem == "relaxed" else _LOWER_ACQUIRE
    tl.inline_asm_elementwise(text, "=r,l", [addrs], dtype=tl.int32, is_pure=False, pack=1)


@triton.jit
def blockwise_barrier(signal_pad_ptrs, block_id, rank, world_size: tl.constexpr, sem: tl.constexpr):
    """Meet the blocks `block_id` of all ranks; None means this block's own flat index.

    Threads 0 to world_size - 1 each signal one peer and wait for its signal. So a caller whose other threads wrote or
    will read shared data puts sync_threads() before and after. `signal_pad_ptrs` is the device address of the table of
    pads (handle.signal_pad_ptrs_dev); `world_size` is a power of two, at most 32.
    """
    if block_id is None:
        block_id = get_flat_bid()
    thread = get_flat_tid()
    peers = tl.arange(0, world_size)
    table = signal_pad_ptrs.to(tl.pointer_type(tl.uint64))
    theirs = tl.load(table + peers).to(tl.pointer_type(tl.uint32)) + block_id * world_size + rank
    mine = tl.load(table + rank).to(tl.pointer_type(tl.uint32)) + block_id * world_size + peers
    if thread < world_size:
        send_signal(theirs.to(tl.uint64), sem)
        wait_signal(mine.to(tl.uint64), sem)
