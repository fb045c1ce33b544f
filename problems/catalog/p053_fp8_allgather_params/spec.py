"""All-gather of FP8-rounded parameters with amax history, described."""

from problems.families import delayed_scaling_spec as delayed_scaling
from problems.spec.schema import EXACT, Argument, Cost, Dims, Hop, Output, Placement, Problem, Size, SizeName, Tolerance
from problems.spec.taxonomy import Block, Communication, Domain, Parallelism, Stage

LLAMA_8B_LAYER = 218_112_000
"""Parameters of one layer of Llama 3.1 8B (hidden size 4096, MLP 14336, 8 key-value heads of 128)."""


def _dims(world_size: int, *, shard: int) -> Dims:
    return {"P": shard, "WP": world_size * shard, "history": 16}


def _large(world_size: int) -> Dims:
    return _dims(world_size, shard=LLAMA_8B_LAYER // world_size)


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """The shard is read and everything written once; codes and scales of the others arrive."""
    return Cost(
        flops={"fp32": 5 * dims["P"]},
        memory_bytes=element_bytes * (dims["P"] + dims["WP"]) + 64,
        wire_bytes=(world_size - 1) * (dims["P"] + 4),
        reference_wire_bytes=(world_size - 1) * (dims["P"] * element_bytes + 4),
        note="A fast program sends the 8-bit codes with one float32 scale per rank; the reference reconstructs first "
        "and sends the run's dtype.",
    )


PROBLEM = Problem(
    number=53,
    slug="fp8_allgather_params",
    title="All-gather of FP8-rounded parameters with amax history",
    summary="A parameter shard goes through float8 e4m3 under a scale from a history of maxima, and the shards of all "
    "ranks are gathered.",
    origin="NVIDIA Transformer Engine (bookkeeping of delayed scaling)",
    parallelism=(Parallelism.FSDP,),
    communication=(Communication.ALL_GATHER,),
    block=Block.QUANTIZATION,
    stage=(Stage.TRAINING,),
    domain=Domain.LLM,
    signature="solution(flat_param_shard: Tensor, amax_history: Tensor[bfloat16]) -> (Tensor, Tensor[bfloat16])",
    arguments=(
        Argument(
            name="flat_param_shard",
            shape=("P",),
            values="normal with a log-normal scale per element and a scale between 0.7 and 1.4 per rank; different on "
            "every rank; the largest magnitude leaves no quotient half-way between two codes",
        ),
        Argument(
            name="amax_history",
            shape=("history",),
            dtype="bfloat16",
            values="16 different maxima; the oldest is the largest, and on every second rank another one exceeds the "
            "shard's own",
        ),
    ),
    outputs=(
        Output(
            name="full",
            shape=("WP",),
            placement=Placement.REPLICATED,
            tolerance=Tolerance(
                atol=1e-3,
                rtol=0.13,
                rms=0.009,
                calibration="One code more or less is at most 12.5 %; the rest is rounding to bfloat16. 2026-11-21, "
                "CPU, torch 2.13, gloo, bfloat16, 10 calls at tiny with 2 and 4 ranks, 3 at base with 8. Honest "
                "programs (division or reciprocal) err by at most 0.0046 rms. The cheapest cheats (current scaling, "
                "one scale for all, int8) err by at least 0.0178 rms. The subnormal code beside a tie is off by 4.4e-6 "
                "of the largest magnitude: at large, on 2 H200 (torch 2.11), 1.18 times what an atol of 1e-4 allows. "
                "In a later call (24 November 2026) it was 1.16 times what one of 3e-4 allowed.",
            ),
        ),
        Output(
            name="updated_hist",
            shape=("history",),
            dtype="bfloat16",
            placement=Placement.PER_RANK,
            tolerance=EXACT,
        ),
    ),
    sizes={
        SizeName.TINY: Size(dims=lambda world_size: _dims(world_size, shard=4000), system="a check on CPU ranks"),
        SizeName.BASE: Size(dims=lambda world_size: _dims(world_size, shard=4096), system="8 KiB of bfloat16 per rank"),
        SizeName.LARGE: Size(
            dims=_large,
            system="FSDP collecting one layer of Llama 3.1 8B (218.1 million parameters) for a pass in 8 bits",
        ),
    },
    cost=cost,
    hops=(
        Hop(
            source="every rank",
            target="every rank",
            payload="its codes, one byte per element, and a float32 scale",
            pattern=Communication.ALL_GATHER,
        ),
    ),
    mutants_not_applicable={
        "squeezed_float8": "values that have been through e4m3 may travel as e4m3: that is what a fast program does",
    },
    fewer_bits="The values are 8-bit floats under one scale per rank by definition, and their codes may travel.",
    regimes=(*delayed_scaling.regimes("flat_param_shard"), *delayed_scaling.other_shards("full")),
    invariants=delayed_scaling.INVARIANTS,
)
