"""All-to-all of stacked matrices, described."""

from problems.spec.axes import message_size
from problems.spec.collectives import COPIED_INVARIANTS, COPIED_REGIMES
from problems.spec.regimes import ALL_DTYPES
from problems.spec.schema import EXACT, Argument, Cost, Dims, Hop, Output, Placement, Problem, Size, SizeName
from problems.spec.taxonomy import Block, Communication, Domain, Stage


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """The stack is read and written once; all but the own slice have to cross the wire."""
    matrix = dims["M"] * dims["N"] * element_bytes
    sent = (world_size - 1) * matrix
    return Cost(
        flops={},
        memory_bytes=2 * world_size * matrix,
        wire_bytes=sent,
        reference_wire_bytes=sent,
        note="Pure exchange.",
    )


PROBLEM = Problem(
    number=8,
    slug="alltoall",
    title="All-to-all of stacked matrices",
    summary="Each rank holds W stacked matrices and sends the d-th to rank d.",
    origin=None,
    parallelism=(),
    communication=(Communication.ALL_TO_ALL,),
    block=Block.PRIMITIVE,
    stage=(Stage.TRAINING, Stage.INFERENCE),
    domain=Domain.GENERIC,
    signature="solution(tensor: Tensor) -> Tensor",
    arguments=(
        Argument(
            name="tensor", shape=("W", "M", "N"), values="standard normal, different on every rank, new on every call"
        ),
    ),
    outputs=(Output(name="out", shape=("W", "M", "N"), placement=Placement.PER_RANK, tolerance=EXACT),),
    sizes={
        SizeName.TINY: Size(dims=lambda world_size: {"W": world_size, "M": 24, "N": 80}, system="a check on CPU ranks"),
        SizeName.BASE: Size(
            dims=lambda world_size: {"W": world_size, "M": 1024, "N": 1024},
            system="one 2 MiB matrix for every rank in bfloat16",
        ),
        SizeName.LARGE: Size(
            dims=lambda world_size: {"W": world_size, "M": 32_768 // world_size, "N": 7168},
            system="expert-parallel dispatch of DeepSeek-V3 (hidden size 7168, 8 routed experts per token) with 4096 "
            "tokens per rank and balanced routing: 32768 rows leave every rank",
        ),
    },
    cost=cost,
    hops=(
        Hop(
            source="rank r",
            target="rank d",
            payload="slice d of its stack, to index r of the other's",
            pattern=Communication.ALL_TO_ALL,
        ),
    ),
    regimes=COPIED_REGIMES,
    invariants=(
        *COPIED_INVARIANTS,
        "There are 2, 4 or 8 ranks.",
    ),
    dtypes=ALL_DTYPES,
    axes=(message_size(has_parts=True),),
)
