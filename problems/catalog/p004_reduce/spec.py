"""Reduce (sum) of one matrix to a destination rank, described."""

from problems.spec.axes import message_size
from problems.spec.collectives import SUMMED_EXTENTS, SUMMED_INVARIANTS
from problems.spec.regimes import ALL_DTYPES, SPECIAL_VALUES, SUMMED_VALUES, exact_sums, further
from problems.spec.schema import (
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
    Tolerance,
    fixed,
)
from problems.spec.taxonomy import Block, Communication, Domain, Stage


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """Every rank reads its matrix and has to send one; the additions may be shared out evenly.

    Without reduction inside the network a chain of partial sums, or a reduce-scatter and a gather, sends one matrix
    per rank and lets the destination receive one.
    """
    elements = dims["M"] * dims["N"]
    return Cost(
        flops={"fp32": (world_size - 1) / world_size * elements},
        memory_bytes=2 * elements * element_bytes,
        wire_bytes=elements * element_bytes,
        reference_wire_bytes=elements * element_bytes,
        note="Every rank but the destination sends at least one matrix, with or without sums on the way.",
    )


PROBLEM = Problem(
    number=4,
    slug="reduce",
    title="Reduce (sum) of one matrix to a destination rank",
    summary="Element-wise sum of one equally shaped matrix per rank, delivered to one rank only.",
    origin=None,
    parallelism=(),
    communication=(Communication.REDUCE,),
    block=Block.PRIMITIVE,
    stage=(Stage.TRAINING, Stage.INFERENCE),
    domain=Domain.GENERIC,
    signature="solution(tensor: Tensor, dst: int = 0) -> Tensor",
    arguments=(
        Argument(
            name="tensor",
            shape=("M", "N"),
            values="normal with a log-normal scale per element and a scale of its own on every rank; new on every call",
        ),
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
            shape=("M", "N"),
            placement=Placement.PER_RANK,
            sharding="rank dst holds the sum; what the other ranks return is free beside its shape and dtype",
            tolerance=Tolerance(
                atol=0.12,
                rtol=0.12,
                rms=0.0085,
                calibration="2026-11-21, torch 2.13 CPU, gloo, bfloat16. At base, 4 ranks. Honest programs (bfloat16 "
                "ring, backwards, chunked; float32) err by at most 0.023 and 0.0025 rms. The cheapest cheat (float8 "
                "payload, one scale per row) errs by at least 0.179 and 0.0219 rms. At tiny, 2 and 4 ranks, 10 calls: "
                "honest 0.015 and 0.0029 rms, the cheat 0.059 and 0.0175 rms. As many sums as at large, in bfloat16 "
                "over 8 ranks (simulated, 134 million), err by up to 0.052: the rms decides.",
            ),
        ),
    ),
    sizes={
        SizeName.TINY: Size(dims=fixed(M=32, N=512), system="a check on CPU ranks"),
        SizeName.BASE: Size(dims=fixed(M=1024, N=1024), system="one matrix of 2 MiB in bfloat16 per rank"),
        SizeName.LARGE: Size(
            dims=fixed(M=53_248, N=4096),
            system="Llama 3.1 8B, data parallel with the optimizer state sharded by layer: the gradients of one layer "
            "(218.1 million parameters, 53248 rows of the hidden size 4096) go to the rank that updates it",
        ),
    },
    cost=cost,
    hops=(
        Hop(
            source="every other rank",
            target="rank dst",
            payload="its matrix, added up on the way or on arrival",
            pattern=Communication.REDUCE,
        ),
    ),
    notes=(
        "Libraries leave open what the other ranks hold after a reduce, so only the destination's values are judged.",
    ),
    regimes=(*further(64, *SUMMED_VALUES), SPECIAL_VALUES, exact_sums("out"), *SUMMED_EXTENTS),
    invariants=SUMMED_INVARIANTS,
    dtypes=ALL_DTYPES,
    axes=(message_size(has_parts=False),),
)
