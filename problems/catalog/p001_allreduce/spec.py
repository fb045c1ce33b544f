"""All-reduce (sum) of one matrix, described."""

from problems.spec.axes import message_size
from problems.spec.collectives import SUMMED_EXTENTS, SUMMED_INVARIANTS
from problems.spec.regimes import ALL_DTYPES, SPECIAL_VALUES, SUMMED_VALUES, exact_sums, further
from problems.spec.schema import Argument, Cost, Dims, Hop, Output, Placement, Problem, Size, SizeName, Tolerance, fixed
from problems.spec.taxonomy import Block, Communication, Domain, Stage


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """One addition per incoming element of a rank's share; the matrix read once and its sum written once.

    Least bytes one way (Patarasuk and Yuan, 2009). Without reduction inside the network a rank must receive the rest of
    the sum of its share and the sums of the other shares, 2 (W-1)/W of the matrix. Multicast and in-switch reduction
    can send less; the floor of profiles that allow them is therefore half of it.
    """
    elements = dims["M"] * dims["N"]
    share = (world_size - 1) / world_size
    return Cost(
        flops={"fp32": share * elements},
        memory_bytes=2 * elements * element_bytes,
        wire_bytes=2 * share * elements * element_bytes,
        reference_wire_bytes=2 * share * elements * element_bytes,
        note="Assumes no reduction inside the network.",
    )


PROBLEM = Problem(
    number=1,
    slug="allreduce",
    title="All-reduce (sum) of one matrix",
    summary="Element-wise sum of one equally shaped matrix per rank, with the sum on every rank.",
    origin=None,
    parallelism=(),
    communication=(Communication.ALL_REDUCE,),
    block=Block.PRIMITIVE,
    stage=(Stage.TRAINING, Stage.INFERENCE),
    domain=Domain.GENERIC,
    signature="solution(tensor: Tensor) -> Tensor",
    arguments=(
        Argument(
            name="tensor",
            shape=("M", "N"),
            values="normal with a log-normal scale per element and a scale of its own on every rank; new on every call",
        ),
    ),
    outputs=(
        Output(
            name="out",
            shape=("M", "N"),
            placement=Placement.REPLICATED,
            tolerance=Tolerance(
                atol=0.12,
                rtol=0.12,
                rms=0.0085,
                calibration="2026-11-21, CPU, torch 2.13, gloo, bfloat16. At base, 4 and 8 ranks, 2 calls. Honest "
                "programs (bfloat16 ring, backwards, chunked; float32) err by at most 0.024 and 0.0035 rms. The "
                "cheapest cheat (float8 payload, one scale per row) errs by at least 0.16 and 0.022 rms. At tiny, 2 to "
                "8 ranks, 20 calls: honest 0.021 and 0.0038 rms, the cheat 0.062 and 0.0155 rms. The largest error "
                "grows with the number of elements (0.052 simulated for 134 million, 8 ranks), so its bound is wide "
                "and the rms decides.",
            ),
        ),
    ),
    sizes={
        SizeName.TINY: Size(dims=fixed(M=32, N=512), system="a smoke test on CPU ranks"),
        SizeName.BASE: Size(dims=fixed(M=1024, N=1024), system="the card's size: 2 MiB in bfloat16"),
        SizeName.LARGE: Size(
            dims=fixed(M=8192, N=8192),
            system="Llama 3.1 70B (hidden size 8192), tensor-parallel prefill of 8192 tokens: the sum after one layer",
        ),
    },
    cost=cost,
    hops=(
        Hop(
            source="every rank",
            target="every rank",
            payload="the matrix, summed: 2 (W-1)/W of M x N elements",
            pattern=Communication.ALL_REDUCE,
        ),
    ),
    regimes=(*further(64, *SUMMED_VALUES), SPECIAL_VALUES, exact_sums("out"), *SUMMED_EXTENTS),
    invariants=SUMMED_INVARIANTS,
    dtypes=ALL_DTYPES,
    axes=(message_size(has_parts=False),),
)
