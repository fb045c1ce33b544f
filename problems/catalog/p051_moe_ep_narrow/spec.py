"""Expert-parallel MoE layers in groups of ranks, described."""

from dataclasses import replace

from problems.families import moe_ep_spec as moe_ep
from problems.families import moe_layer_spec as moe
from problems.spec.schema import Cost, Dims, Problem, Regime, Size, SizeName, Tolerance
from problems.spec.taxonomy import Block, Communication, Domain, Parallelism, Stage


def cost(dims: Dims, _world_size: int, element_bytes: int) -> Cost:
    """The layer's cost with the experts spread over the ranks of a group."""
    return moe.cost(dims, owners=dims["num_experts"], element_bytes=element_bytes)


def number_of_experts(world_size: int) -> int:
    """The largest divisor of the world size from 2 to half of it, 1 where there is none."""
    return max((count for count in range(2, world_size // 2 + 1) if world_size % count == 0), default=1)


def _at_base(world_size: int) -> Dims:
    experts = number_of_experts(world_size)
    return _dims(M=1024, N=1024, inter_dim=128, num_experts=experts, top_k=min(2, experts))


def _with_exchange(world_size: int, *, M: int, N: int, inter_dim: int) -> Dims:
    """As at base, but with two experts at the least, and one of two chosen."""
    experts = max(2, number_of_experts(world_size))
    return _dims(M=M, N=N, inter_dim=inter_dim, num_experts=experts, top_k=min(2, experts - 1))


def _dims(*, M: int, N: int, inter_dim: int, num_experts: int, top_k: int) -> Dims:
    return {"M": M, "N": N, "inter_dim": inter_dim, "num_experts": num_experts, "top_k": top_k}


PROBLEM = Problem(
    number=51,
    slug="moe_ep_narrow",
    title="Expert-parallel MoE layers in groups of ranks",
    summary="Fewer experts than ranks: blocks of ranks form independent groups with one expert per rank.",
    origin="VeOmni (ByteDance)",
    parallelism=(Parallelism.EXPERT, Parallelism.DATA),
    communication=(Communication.ALL_GATHER, Communication.ALL_TO_ALL_V),
    block=Block.MOE,
    stage=(Stage.TRAINING, Stage.INFERENCE),
    domain=Domain.MOE_LLM,
    signature=moe.signature(),
    arguments=moe.arguments(
        num_experts="in timed calls 4 on 8 ranks, 2 on 4 ranks; on 2 ranks 1 at base, else 2",
        top_k="in timed calls 2; with one expert 1, and with two experts 1 but at base",
        group="None: the solution makes blocks of num_experts ranks itself",
    ),
    outputs=(
        moe.output(
            Tolerance(
                atol=0.4,
                rtol=0.2,
                rms=0.0127,
                calibration="2026-11-21, CPU, torch 2.13, gloo, bfloat16. At tiny on 2 and 4 ranks. Honest programs "
                "(bfloat16 throughout; float32) err by at most 0.088 and 0.0050 rms. The cheapest cheat (8-bit "
                "payload, one scale per row) errs by at least 0.24 and 0.033 rms. The largest error grows with the "
                "number of elements: in moe_ep_wide at base, in 54 calls of 2.1 million elements, it was 0.14. So its "
                "bound is wide and the rms decides.",
            ),
        ),
    ),
    sizes={
        SizeName.TINY: Size(
            dims=lambda world_size: _with_exchange(world_size, M=64, N=256, inter_dim=64), system="a check on CPU ranks"
        ),
        SizeName.BASE: Size(dims=_at_base, system="a small layer: 1024 tokens per rank, hidden size 1024"),
        SizeName.LARGE: Size(
            dims=lambda world_size: _with_exchange(world_size, M=8192, N=2560, inter_dim=10_240),
            system="the width of Phi-2 (hidden size 2560, intermediate size 10240) as 4 experts, top 2, which merged "
            "models of it have; 8192 tokens per rank, two groups of 4 on 8 ranks",
        ),
    },
    cost=cost,
    groups="blocks of num_experts neighbouring ranks, made by the solution; the world where there are as many experts",
    hops=moe.HOPS,
    counted_wire=moe.COUNTED_WIRE,
    mutants_not_applicable=moe.MUTANTS_NOT_APPLICABLE,
    notes=(
        "On 2 ranks base has one expert and nothing to exchange; on 4 ranks it has two experts, chosen by all.",
        "Nothing crosses the border of a group: replicas of an expert in other groups have other weights.",
    ),
    regimes=(
        *moe.regimes(),
        moe_ep.MANY_TOKENS,
        Regime(
            name="one_expert",
            words="there is one expert, so that every rank is a group of its own; or two where they are doubled",
            dims={"num_experts": 1, "top_k": 1},
            apart=("every_expert",),
        ),
        moe_ep.OTHER_CHOICES,
        replace(moe_ep.SEVERAL_CHOICES, least_world_size=8),
    ),
    invariants=(
        *moe_ep.INVARIANTS,
        "`num_experts` is 1 or 2, or once or twice as many as in timed calls of this size.",
    ),
)
