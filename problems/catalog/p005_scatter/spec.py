"""Scatter of stacked matrices from a source rank, described."""

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

_VOCABULARY = 128_256
"""Rows of the embedding of Llama 3.1 (its published configuration)."""


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """The source, the busiest rank, reads W matrices, writes its own and sends the other W - 1."""
    matrix = dims["M"] * dims["N"] * element_bytes
    sent = (world_size - 1) * matrix
    return Cost(
        flops={},
        memory_bytes=(world_size + 1) * matrix,
        wire_bytes=sent,
        reference_wire_bytes=sent,
        note="Counted for the source; every other rank receives one matrix.",
    )


PROBLEM = Problem(
    number=5,
    slug="scatter",
    title="Scatter of stacked matrices from a source rank",
    summary="The source rank holds W stacked matrices and sends the r-th to rank r.",
    origin=None,
    parallelism=(),
    communication=(Communication.SCATTER,),
    block=Block.PRIMITIVE,
    stage=(Stage.TRAINING, Stage.INFERENCE),
    domain=Domain.GENERIC,
    signature="solution(tensor: Tensor, src: int = 0) -> Tensor",
    arguments=(
        Argument(
            name="tensor",
            shape=("W", "M", "N"),
            shape_elsewhere=("M", "N"),
            values="standard normal; the stack on rank src, on every other rank one matrix that says what to return",
        ),
        Argument(
            name="src",
            kind=ArgumentKind.INTEGER,
            dtype="int",
            values="any rank, secret, the same on all ranks; new on every call",
        ),
    ),
    outputs=(
        Output(
            name="out",
            shape=("M", "N"),
            placement=Placement.SHARDED,
            sharding="rank r holds matrix r of the source's stack",
            tolerance=EXACT,
        ),
    ),
    sizes={
        SizeName.TINY: Size(dims=lambda world_size: {"W": world_size, "M": 48, "N": 80}, system="a check on CPU ranks"),
        SizeName.BASE: Size(
            dims=lambda world_size: {"W": world_size, "M": 1024, "N": 1024}, system="2 MiB in bfloat16 for every rank"
        ),
        SizeName.LARGE: Size(
            dims=lambda world_size: {"W": world_size, "M": _VOCABULARY // world_size, "N": 8192},
            system="Llama 3.1 70B (vocabulary 128256, hidden size 8192): one rank has loaded the embedding and hands "
            "every rank its rows",
        ),
    },
    cost=cost,
    hops=(Hop(source="rank src", target="rank r", payload="matrix r of the stack", pattern=Communication.SCATTER),),
    mutants_not_applicable={
        "last_rank_skipped": "only the source contributes; shares that go astray are mutants of their own"
    },
    regimes=COPIED_REGIMES,
    invariants=COPIED_INVARIANTS,
    dtypes=ALL_DTYPES,
    axes=(message_size(has_parts=True),),
)
