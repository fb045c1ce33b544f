"""Reduce-scatter (mean) of FP8-rounded gradients with amax history, described."""

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
    """The gradient is read and the slice of the mean written once; codes and scales travel to the slice's owner."""
    return Cost(
        flops={"fp32": 5 * dims["WP"]},
        memory_bytes=element_bytes * (dims["WP"] + dims["P"]) + 64,
        wire_bytes=(world_size - 1) * (dims["P"] + 4),
        reference_wire_bytes=(world_size - 1) * (dims["P"] * element_bytes + 4),
        note="A fast program sends 8-bit codes with one float32 scale per rank and adds on arrival; the reference "
        "reconstructs first and reduces in the run's dtype.",
    )


PROBLEM = Problem(
    number=52,
    slug="fp8_reduce_scatter_grads",
    title="Reduce-scatter (mean) of FP8-rounded gradients with amax history",
    summary="Gradients go through float8 e4m3 under a scale from a history of maxima; each rank gets its slice of the "
    "mean.",
    origin="NVIDIA Transformer Engine (bookkeeping of delayed scaling)",
    parallelism=(Parallelism.DATA, Parallelism.FSDP),
    communication=(Communication.REDUCE_SCATTER,),
    block=Block.QUANTIZATION,
    stage=(Stage.TRAINING,),
    domain=Domain.LLM,
    signature="solution(flat_grads: Tensor, amax_history: Tensor[bfloat16]) -> (Tensor, Tensor[bfloat16])",
    arguments=(
        Argument(
            name="flat_grads",
            shape=("WP",),
            values="normal with a log-normal scale per element and a scale between 0.7 and 1.4 per rank; different on "
            "every rank; the largest magnitude leaves no quotient half-way between two codes",
        ),
        Argument(
            name="amax_history",
            shape=("history",),
            dtype="bfloat16",
            values="16 different maxima; the oldest is the largest, and on every second rank another one exceeds the "
            "gradient's own",
        ),
    ),
    outputs=(
        Output(
            name="out_shard",
            shape=("P",),
            placement=Placement.SHARDED,
            sharding="rank r holds elements r*P to (r+1)*P - 1 of the mean",
            tolerance=Tolerance(
                atol=0.5,
                rtol=0.13,
                rms=0.0105,
                calibration="Element by element one code more or less of the largest element passes, the rms decides. "
                "2026-11-21, CPU, torch 2.13, gloo, bfloat16, tiny, 2 and 4 ranks, 8 calls. Honest programs (sums in "
                "bfloat16 or float32, division or reciprocal) err by at most 0.0054 rms. The cheapest cheats (one "
                "scale for all, int8, no 8 bits at all) err by at least 0.021 rms.",
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
        SizeName.BASE: Size(
            dims=lambda world_size: _dims(world_size, shard=4096), system="a slice of 8 KiB of bfloat16 per rank"
        ),
        SizeName.LARGE: Size(
            dims=_large,
            system="FSDP reducing the gradients of one layer of Llama 3.1 8B (218.1 million parameters) in 8 bits",
        ),
    },
    cost=cost,
    hops=(
        Hop(
            source="every rank",
            target="rank r",
            payload="the codes of slice r, one byte per element, and a float32 scale, added up on arrival",
            pattern=Communication.REDUCE_SCATTER,
        ),
    ),
    mutants_not_applicable={
        "squeezed_float8": "values that have been through e4m3 may travel as e4m3: that is what a fast program does",
    },
    fewer_bits="The values are 8-bit floats under one scale per rank by definition, and their codes may travel.",
    regimes=(*delayed_scaling.regimes("flat_grads"), *delayed_scaling.other_shards("out_shard")),
    invariants=delayed_scaling.INVARIANTS,
)
