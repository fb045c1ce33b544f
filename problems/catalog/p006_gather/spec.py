"""Gather of matrices to a destination rank, described."""

from problems.spec.axes import message_size
from problems.spec.collectives import COPIED_INVARIANTS, COPIED_REGIMES
from problems.spec.regimes import ALL_DTYPES
from problems.spec.schema import (
    EXACT,
    Argument,
    ArgumentKind,
    Cost,
    Dims,
    Hop,
    Output,
    Placement,
    Problem,
    Size,
    SizeName,
)
from problems.spec.taxonomy import Block, Communication, Domain, Stage

_LLAMA_70B_LAYER_ROWS = 104_448
"""Weights of one Llama 3.1 70B layer in rows of 8192: 2 x 8192 (query, output) + 2 x 1024 (key, value) + 3 x 28672."""


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """The destination, the busiest rank, reads its own matrix, writes W of them and receives the other W - 1."""
    matrix = dims["M"] * dims["N"] * element_bytes
    received = (world_size - 1) * matrix
    return Cost(
        flops={},
        memory_bytes=(world_size + 1) * matrix,
        wire_bytes=received,
        reference_wire_bytes=received,
        note="Counted for the destination; every other rank sends one matrix.",
    )


PROBLEM = Problem(
    number=6,
    slug="gather",
    title="Gather of matrices to a destination rank",
    summary="The destination rank receives the stack of all ranks' matrices in rank order.",
    origin=None,
    parallelism=(),
    communication=(Communication.GATHER,),
    block=Block.PRIMITIVE,
    stage=(Stage.TRAINING, Stage.INFERENCE),
    domain=Domain.GENERIC,
    signature="solution(tensor: Tensor, dst: int = 0) -> Tensor",
    arguments=(
        Argument(name="tensor", shape=("M", "N"), values="standard normal, different on every rank, new on every call"),
        Argument(
            name="dst",
            kind=ArgumentKind.INTEGER,
            dtype="int",
            values="any rank, secret, the same on all ranks; new on every call",
        ),
    ),
    outputs=(
        Output(
            name="out",
            shape=("W", "M", "N"),
            shape_elsewhere=("M", "N"),
            placement=Placement.PER_RANK,
            sharding="rank dst holds the stack; every other rank hands its own matrix back",
            tolerance=EXACT,
        ),
    ),
    sizes={
        SizeName.TINY: Size(dims=lambda world_size: {"W": world_size, "M": 48, "N": 80}, system="a check on CPU ranks"),
        SizeName.BASE: Size(
            dims=lambda world_size: {"W": world_size, "M": 1024, "N": 1024}, system="2 MiB in bfloat16 from every rank"
        ),
        SizeName.LARGE: Size(
            dims=lambda world_size: {"W": world_size, "M": _LLAMA_70B_LAYER_ROWS // world_size, "N": 8192},
            system="Llama 3.1 70B under FSDP: the shards of one layer's weights (855.6 million parameters, hidden size "
            "8192) go to the rank that writes the checkpoint",
        ),
    },
    cost=cost,
    hops=(Hop(source="rank r", target="rank dst", payload="its matrix, to index r", pattern=Communication.GATHER),),
    regimes=COPIED_REGIMES,
    invariants=COPIED_INVARIANTS,
    dtypes=ALL_DTYPES,
    axes=(message_size(has_parts=True),),
)
