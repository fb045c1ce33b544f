"""Training step with a sharded optimizer (ZeRO-1), described."""

from dataclasses import replace

from problems.families import mlp_step_spec as mlp
from problems.families import zero_step_spec as zero
from problems.spec.schema import Cost, Dims, Hop, Problem, Size, SizeName, Tolerance
from problems.spec.taxonomy import Block, Communication, Domain, Parallelism, Stage

TOLERANCE = Tolerance(
    atol=0.15,
    rtol=0.15,
    rms=0.03,
    calibration="2026-11-21, CPU, torch 2.13, gloo, bfloat16, 2 and 4 ranks, 12 calls, tiny. Honest programs (every "
    "step rounded, float32, autograd with fused Adam) err by at most 0.03 and 0.0132 rms. The cheapest cheat (8-bit "
    "float payloads) errs by at least 0.13 and 0.037 rms. The rms decides. In 200 calls of honest programs it was at "
    "most 0.0171, as one large gradient can carry the second moments.",
)
WEIGHTS = replace(
    TOLERANCE,
    rms=0.008,
    calibration="2026-11-21, CPU, torch 2.13, gloo, bfloat16, 2 and 4 ranks, 14 calls, tiny. Honest programs err by at "
    "most 0.0031 rms. The cheapest cheat (8-bit float payloads) errs by at least 0.0215 rms. Moments alone are less "
    "far apart, but a program has to pass in all outputs. At base, 4 ranks, 1 call: honest 0.0022, cheats 0.036.",
)


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """Two products forward, three backward (no gradient of the input); the optimizer touches the rank's part once.

    Parameters to every rank, the gradient reduced to the owner of each part, new parameters from the owners to all.
    """
    state = dims["P"] * element_bytes
    share = (world_size - 1) / world_size
    return Cost(
        flops={"matmul": mlp.matmul_flops(dims), "fp32": 14 * dims["part"]},
        memory_bytes=mlp.sample_bytes(dims, element_bytes) + 2 * state + 4 * dims["part"] * element_bytes,
        wire_bytes=(1 + 2 * share) * state,
        reference_wire_bytes=(1 + 3 * share) * state,
        note="The gradient need only reach the owner of each part, half of the all-reduce that the reference does.",
    )


PROBLEM = Problem(
    number=41,
    slug="zero1_optimizer_shard",
    title="ZeRO stage 1 training step (sharded optimizer state)",
    summary="One training step in which every rank keeps and applies 1/W of the optimizer state.",
    origin="DeepSpeed ZeRO (stage 1)",
    parallelism=(Parallelism.ZERO, Parallelism.DATA),
    communication=(Communication.BROADCAST, Communication.ALL_REDUCE, Communication.ALL_GATHER),
    block=Block.OPTIMIZER,
    stage=(Stage.TRAINING,),
    domain=Domain.GENERIC,
    signature=zero.SIGNATURE,
    arguments=zero.ARGUMENTS,
    outputs=zero.outputs(weights=WEIGHTS, others=TOLERANCE),
    sizes={
        **mlp.small_sizes(mlp.in_parts),
        SizeName.LARGE: Size(
            dims=lambda world_size: mlp.in_parts(
                samples=8192 * world_size, d_in=1600, hidden=6400, d_out=1600, world_size=world_size
            ),
            system="the MLP of one layer of the 1.5 billion parameter GPT-2 of the ZeRO paper (width 1600, four times "
            "that inside), 8 sequences of 1024 tokens per rank",
        ),
    },
    cost=cost,
    refuses_world_size=mlp.refuses_uneven_parts,
    world_size_rule="powers of two",
    hops=(
        Hop(source="rank 0", target="every other rank", payload="the parameters", pattern=Communication.BROADCAST),
        Hop(source="every rank", target="every rank", payload="its gradient, summed", pattern=Communication.ALL_REDUCE),
        Hop(
            source="the owner of each part",
            target="every other rank",
            payload="its new parameters",
            pattern=Communication.ALL_GATHER,
        ),
    ),
    regimes=zero.regimes(weights=WEIGHTS, others=TOLERANCE),
    invariants=(
        *mlp.step_of_network(values="Values are at most 2e16 in size, and nonzero ones at least 1e-28."),
        *mlp.IN_PARTS,
    ),
)
