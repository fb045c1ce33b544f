"""All-gather of one matrix into a stack, described."""

from problems.spec.axes import message_size
from problems.spec.collectives import COPIED_INVARIANTS, COPIED_REGIMES
from problems.spec.regimes import ALL_DTYPES
from problems.spec.schema import EXACT, Argument, Cost, Dims, Hop, Output, Placement, Problem, Size, SizeName
from problems.spec.taxonomy import Block, Communication, Domain, Stage

_LLAMA_70B_LAYER_ROWS = 104_448
"""Weights of one Llama 3.1 70B layer in rows of 8192: 2 x 8192 (query, output) + 2 x 1024 (key, value) + 3 x 28672."""


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """The own matrix is read, the stack of all W written; the other W - 1 matrices have to arrive."""
    matrix = dims["M"] * dims["N"] * element_bytes
    received = (world_size - 1) * matrix
    return Cost(
        flops={},
        memory_bytes=(world_size + 1) * matrix,
        wire_bytes=received,
        reference_wire_bytes=received,
        note="Receiving bounds the wire: every rank needs W - 1 matrices that it does not hold.",
    )


PROBLEM = Problem(
    number=2,
    slug="allgather",
    title="All-gather of one matrix into a stack",
    summary="Every rank contributes one matrix and receives the stack of all ranks' matrices in rank order.",
    origin=None,
    parallelism=(),
    communication=(Communication.ALL_GATHER,),
    block=Block.PRIMITIVE,
    stage=(Stage.TRAINING, Stage.INFERENCE),
    domain=Domain.GENERIC,
    signature="solution(tensor: Tensor) -> Tensor",
    arguments=(
        Argument(name="tensor", shape=("M", "N"), values="standard normal, different on every rank, new on every call"),
    ),
    outputs=(Output(name="out", shape=("W", "M", "N"), placement=Placement.REPLICATED, tolerance=EXACT),),
    sizes={
        SizeName.TINY: Size(dims=lambda world_size: {"W": world_size, "M": 48, "N": 80}, system="a check on CPU ranks"),
        SizeName.BASE: Size(
            dims=lambda world_size: {"W": world_size, "M": 1024, "N": 1024},
            system="one 2 MiB matrix per rank in bfloat16: short enough that latency matters",
        ),
        SizeName.LARGE: Size(
            dims=lambda world_size: {"W": world_size, "M": _LLAMA_70B_LAYER_ROWS // world_size, "N": 8192},
            system="FSDP gathering the weights of one Llama 3.1 70B layer (855.6 million parameters, hidden size "
            "8192, MLP 28672, 8 key-value heads of 128) before its forward pass",
        ),
    },
    cost=cost,
    hops=(
        Hop(
            source="rank r",
            target="every other rank",
            payload="its matrix, to index r of the stack",
            pattern=Communication.ALL_GATHER,
        ),
    ),
    regimes=COPIED_REGIMES,
    invariants=COPIED_INVARIANTS,
    dtypes=ALL_DTYPES,
    axes=(message_size(has_parts=True),),
)
