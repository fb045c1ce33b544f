"""Expert-parallel MoE layer, one expert per rank, described."""

from dataclasses import replace

from problems.families import moe_ep_spec as moe_ep
from problems.families import moe_layer_spec as moe
from problems.spec.schema import Dims, Problem, Size, SizeName, Tolerance
from problems.spec.taxonomy import Block, Communication, Domain, Parallelism, Stage


def _dims(*, M: int, N: int, inter_dim: int, num_experts: int, top_k: int) -> Dims:
    return {"M": M, "N": N, "inter_dim": inter_dim, "num_experts": num_experts, "top_k": top_k}


PROBLEM = Problem(
    number=49,
    slug="moe_ep_balanced",
    title="Expert-parallel MoE layer, one expert per rank",
    summary="As many experts as ranks: every choice of a token is a different owner.",
    origin="VeOmni (ByteDance)",
    parallelism=(Parallelism.EXPERT,),
    communication=(Communication.ALL_GATHER, Communication.ALL_TO_ALL_V),
    block=Block.MOE,
    stage=(Stage.TRAINING, Stage.INFERENCE),
    domain=Domain.MOE_LLM,
    signature=moe.signature(),
    arguments=moe.arguments(
        num_experts="the world size in timed calls",
        top_k="2 in timed calls; at tiny on 2 ranks 1",
        group="None: the world group",
    ),
    outputs=(
        moe.output(
            Tolerance(
                atol=0.4,
                rtol=0.2,
                rms=0.013,
                calibration="2026-11-21, CPU, torch 2.13, gloo, bfloat16. At tiny on 2 and 4 ranks. Honest programs "
                "(bfloat16 throughout; float32) err by at most 0.065 and 0.0054 rms. The cheapest cheat (8-bit "
                "payload, one scale per row) errs by at least 0.26 and 0.033 rms. The largest error grows with the "
                "number of elements: in moe_ep_wide at base, in 54 calls of 2.1 million elements, it was 0.14. So its "
                "bound is wide and the rms decides.",
            ),
        ),
    ),
    sizes={
        SizeName.TINY: Size(
            dims=lambda world_size: _dims(
                M=64, N=256, inter_dim=64, num_experts=world_size, top_k=min(2, world_size - 1)
            ),
            system="a check on CPU ranks",
        ),
        SizeName.BASE: Size(
            dims=lambda world_size: _dims(M=1024, N=1024, inter_dim=128, num_experts=world_size, top_k=2),
            system="a small layer: 1024 tokens per rank, hidden size 1024",
        ),
        SizeName.LARGE: Size(
            dims=lambda world_size: _dims(M=4096, N=6144, inter_dim=16_384, num_experts=world_size, top_k=2),
            system="a layer of Mixtral 8x22B (hidden size 6144, intermediate size 16384, 8 experts on 8 ranks, "
            "top 2), 4096 tokens per rank",
        ),
    },
    cost=moe.cost_over_all_ranks,
    hops=moe.HOPS,
    counted_wire=moe.COUNTED_WIRE,
    mutants_not_applicable=moe.MUTANTS_NOT_APPLICABLE,
    notes=("On 2 ranks base and large send every token to both experts.",),
    regimes=(
        *moe.regimes(),
        moe_ep.MANY_TOKENS,
        replace(moe.ONE_CHOICE, least_world_size=3),
        replace(moe.MORE_CHOICES, name="three_choices", words="top_k is 3", settings={"top_k": 3}, least_world_size=4),
        moe_ep.OTHER_CHOICES,
        replace(moe_ep.SEVERAL_CHOICES, least_world_size=4),
    ),
    invariants=(*moe_ep.INVARIANTS, "`num_experts` is once or twice the number of ranks."),
)
