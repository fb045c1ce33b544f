"""Expert-parallel MoE layer with LoRA adapters, described."""

from dataclasses import replace

from problems.families import moe_layer_spec as moe
from problems.spec.ranges import Extent, Whole
from problems.spec.schema import Problem, Regime, Size, SizeName, Tolerance, fixed
from problems.spec.taxonomy import Block, Communication, Domain, Parallelism, Stage
from problems.spec.world_sizes import divisors_of

PROBLEM = Problem(
    number=32,
    slug="fused_moe_fwd_lora",
    title="Expert-parallel MoE layer with LoRA adapters",
    summary="The MoE layer with 8 experts and a low-rank adapter on each of the three projections.",
    origin="VeOmni (ByteDance)",
    parallelism=(Parallelism.EXPERT,),
    communication=(Communication.ALL_GATHER, Communication.ALL_TO_ALL_V),
    block=Block.MOE,
    stage=(Stage.TRAINING, Stage.INFERENCE),
    domain=Domain.MOE_LLM,
    signature=moe.signature(adapters=moe.ADAPTERS),
    arguments=moe.arguments(
        num_experts="8 in timed calls",
        top_k="2 in timed calls",
        group="None: the world group",
        adapters=moe.ADAPTERS,
    ),
    outputs=(
        moe.output(
            Tolerance(
                atol=0.4,
                rtol=0.2,
                rms=0.015,
                calibration="2026-11-21, CPU, torch 2.13, gloo, bfloat16. At tiny on 2 and 4 ranks and base at 4 "
                "ranks. Honest programs (bfloat16 throughout; float32) err by at most 0.12 and 0.0065 rms. The "
                "cheapest cheat (8-bit payload, one scale per row) errs by at least 0.29 and 0.035 rms. The largest "
                "error grows with the number of elements. At base, in 60 calls of 2.1 million elements, it was 0.19, "
                "where outputs of two experts cancel in an outlier channel. So its bound is wide and the rms decides.",
            ),
        ),
    ),
    sizes={
        SizeName.TINY: Size(
            dims=fixed(M=64, N=256, inter_dim=64, lora_r=4, num_experts=8, top_k=2), system="a check on CPU ranks"
        ),
        SizeName.BASE: Size(
            dims=fixed(M=1024, N=1024, inter_dim=128, lora_r=8, num_experts=8, top_k=2),
            system="a small layer: 1024 tokens per rank, hidden size 1024, adapters of rank 8",
        ),
        SizeName.LARGE: Size(
            dims=fixed(M=4096, N=4096, inter_dim=14_336, lora_r=16, num_experts=8, top_k=2),
            system="a layer of Mixtral 8x7B (hidden size 4096, intermediate size 14336, 8 experts, top 2), adapters "
            "of rank 16, 4096 tokens per rank",
        ),
    },
    cost=moe.cost_over_all_ranks,
    refuses_world_size=divisors_of(8, needs="2, 4 or 8 ranks, a divisor of its 8 experts"),
    world_size_rule="2, 4 or 8",
    hops=moe.HOPS,
    counted_wire=moe.COUNTED_WIRE,
    mutants_not_applicable=moe.MUTANTS_NOT_APPLICABLE,
    notes=("A rank has one network for all its experts. A row that chose two of them can be sent and computed once.",),
    regimes=(
        *moe.regimes(made_by="down_proj and lora_down_B", times_experts=Whole(low=2, high=3)),
        Regime(
            name="other_adapters",
            words="the adapters have another rank, and above rank 1 the first row of each first factor is zero",
            settings={"adapters": "zero_row"},
            dims={"lora_r": Extent(low=1, high=64)},
        ),
        moe.ONE_CHOICE,
        replace(moe.MORE_CHOICES, words="top_k is 3 to 7", settings={"top_k": Whole(low=3, high=7)}),
    ),
    invariants=(
        *moe.INVARIANTS,
        "All floating-point tensors are in bfloat16.",
        "`num_experts` is 8, 16 or 24, and so a multiple of the number of ranks.",
        "`top_k` is from 1 to 7, or all of `num_experts`.",
        "`gate_bias` may be None, and any of the three projections may have no bias.",
        "M and the rank of the adapters need not be multiples of anything. All adapters have the same rank.",
        "N is a multiple of 256, and the inner size of the networks is a multiple of 64.",
    ),
)
