"""Broadcast of one matrix from a source rank, described."""

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
    fixed,
)
from problems.spec.taxonomy import Block, Communication, Domain, Stage


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """The source reads its matrix and writes the copy; everyone else receives the matrix once.

    A pipelined chain sends no more than one matrix per rank, whatever the world size.
    """
    del world_size
    matrix = dims["M"] * dims["N"] * element_bytes
    return Cost(
        flops={},
        memory_bytes=2 * matrix,
        wire_bytes=matrix,
        reference_wire_bytes=matrix,
        note="Reached by a pipelined chain, a scatter followed by an all-gather, or multicast.",
    )


PROBLEM = Problem(
    number=3,
    slug="broadcast",
    title="Broadcast of one matrix from a source rank",
    summary="Copies the source rank's matrix to every rank.",
    origin=None,
    parallelism=(),
    communication=(Communication.BROADCAST,),
    block=Block.PRIMITIVE,
    stage=(Stage.TRAINING, Stage.INFERENCE),
    domain=Domain.GENERIC,
    signature="solution(tensor: Tensor, src: int = 0) -> Tensor",
    arguments=(
        Argument(name="tensor", shape=("M", "N"), values="standard normal, different on every rank, new on every call"),
        Argument(
            name="src",
            kind=ArgumentKind.INTEGER,
            dtype="int",
            values="any rank, secret, the same on all ranks; new on every call",
        ),
    ),
    outputs=(Output(name="out", shape=("M", "N"), placement=Placement.REPLICATED, tolerance=EXACT),),
    sizes={
        SizeName.TINY: Size(dims=fixed(M=48, N=80), system="a check on CPU ranks"),
        SizeName.BASE: Size(dims=fixed(M=1024, N=1024), system="one matrix of 2 MiB in bfloat16"),
        SizeName.LARGE: Size(
            dims=fixed(M=28_672, N=8192),
            system="Llama 3.1 70B (hidden size 8192, MLP 28672): one rank has loaded a checkpoint and hands out the "
            "gate matrix of one MLP",
        ),
    },
    cost=cost,
    hops=(Hop(source="rank src", target="every other rank", payload="its matrix", pattern=Communication.BROADCAST),),
    mutants_not_applicable={
        "last_rank_skipped": "only the source contributes; a wrong source is the problem's own mutant next_source"
    },
    regimes=COPIED_REGIMES,
    invariants=COPIED_INVARIANTS,
    dtypes=ALL_DTYPES,
    axes=(message_size(has_parts=False),),
)
