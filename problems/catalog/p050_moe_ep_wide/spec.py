"""Expert-parallel MoE layer, two experts per rank, described."""

from dataclasses import replace

from problems.families import moe_ep_spec as moe_ep
from problems.families import moe_layer_spec as moe
from problems.spec.ranges import Whole
from problems.spec.schema import Dims, Problem, Size, SizeName, Tolerance
from problems.spec.taxonomy import Block, Communication, Domain, Parallelism, Stage


def _dims(*, M: int, N: int, inter_dim: int, num_experts: int) -> Dims:
    return {"M": M, "N": N, "inter_dim": inter_dim, "num_experts": num_experts, "top_k": 2}


PROBLEM = Problem(
    number=50,
    slug="moe_ep_wide",
    title="Expert-parallel MoE layer, two experts per rank",
    summary="Twice as many experts as ranks: smaller groups of rows, and tokens that chose both experts of a rank.",
    origin="VeOmni (ByteDance)",
    parallelism=(Parallelism.EXPERT,),
    communication=(Communication.ALL_GATHER, Communication.ALL_TO_ALL_V),
    block=Block.MOE,
    stage=(Stage.TRAINING, Stage.INFERENCE),
    domain=Domain.MOE_LLM,
    signature=moe.signature(),
    arguments=moe.arguments(
        num_experts="twice the world size in timed calls",
        top_k="2 in timed calls",
        group="None: the world group",
    ),
    outputs=(
        moe.output(
            Tolerance(
                atol=0.4,
                rtol=0.2,
                rms=0.0128,
                calibration="2026-11-21, CPU, torch 2.13, gloo, bfloat16. At tiny on 2 and 4 ranks and base at 4 "
                "ranks. Honest programs (bfloat16 throughout; float32) err by at most 0.10 and 0.0053 rms. The "
                "cheapest cheat (8-bit payload, one scale per row) errs by at least 0.27 and 0.032 rms. The largest "
                "error grows with the number of elements: in moe_ep_wide at base, in 54 calls of 2.1 million elements, "
                "it was 0.14. So its bound is wide and the rms decides.",
            ),
        ),
    ),
    sizes={
        SizeName.TINY: Size(
            dims=lambda world_size: _dims(M=64, N=256, inter_dim=64, num_experts=2 * world_size),
            system="a check on CPU ranks",
        ),
        SizeName.BASE: Size(
            dims=lambda world_size: _dims(M=1024, N=1024, inter_dim=128, num_experts=2 * world_size),
            system="a small layer: 1024 tokens per rank, hidden size 1024",
        ),
        SizeName.LARGE: Size(
            dims=lambda world_size: _dims(M=8192, N=4096, inter_dim=6400, num_experts=2 * world_size),
            system="a layer of Phi-3.5-MoE (hidden size 4096, intermediate size 6400, 16 experts on 8 ranks, top 2), "
            "8192 tokens per rank",
        ),
    },
    cost=moe.cost_over_all_ranks,
    hops=moe.HOPS,
    counted_wire=moe.COUNTED_WIRE,
    mutants_not_applicable=moe.MUTANTS_NOT_APPLICABLE,
    notes=("A rank has one network for all its experts. A row that chose two of them can be sent and computed once.",),
    regimes=(
        *moe.regimes(),
        moe_ep.MANY_TOKENS,
        moe.ONE_CHOICE,
        replace(
            moe.MORE_CHOICES,
            words="top_k is 3 to 7, out of twice as many experts as in timed calls",
            settings={"times_experts": 2, "top_k": Whole(low=3, high=7)},
        ),
    ),
    invariants=(*moe_ep.INVARIANTS, "`num_experts` is twice or four times the number of ranks."),
)
