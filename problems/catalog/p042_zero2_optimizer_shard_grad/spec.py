"""Training step with a sharded optimizer (ZeRO-2), described."""

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
    "step rounded, float32, autograd with fused Adam) err by at most 0.025 and 0.0147 rms. The cheapest cheat (8-bit "
    "float payloads) errs by at least 0.12 and 0.037 rms. The rms decides. In 200 calls of honest programs it was at "
    "most 0.0171, as one large gradient can carry the second moments.",
)
WEIGHTS = replace(
    TOLERANCE,
    rms=0.008,
    calibration="2026-11-21, CPU, torch 2.13, gloo, bfloat16, 2 and 4 ranks, 14 calls, tiny. Honest programs err by at "
    "most 0.0031 rms. The cheapest cheat (8-bit float payloads) errs by at least 0.0197 rms. Moments alone are less "
    "far apart, but a program has to pass in all outputs. At base, 4 ranks, 1 call: honest 0.0023, cheats 0.037.",
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
        reference_wire_bytes=(1 + 2 * share) * state,
    )


PROBLEM = Problem(
    number=42,
    slug="zero2_optimizer_shard_grad",
    title="ZeRO stage 2 training step (sharded gradients and optimizer state)",
    summary="One training step in which every rank keeps 1/W of the mean gradient and of the optimizer state.",
    origin="DeepSpeed ZeRO (stage 2)",
    parallelism=(Parallelism.ZERO, Parallelism.DATA),
    communication=(Communication.BROADCAST, Communication.REDUCE_SCATTER, Communication.ALL_GATHER),
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
                samples=8192 * world_size, d_in=4096, hidden=16384, d_out=4096, world_size=world_size
            ),
            system="the MLP of one layer of GPT-3 6.7B (width 4096, four times that inside), 4 sequences of 2048 "
            "tokens per rank",
        ),
    },
    cost=cost,
    refuses_world_size=mlp.refuses_uneven_parts,
    world_size_rule="powers of two",
    hops=(
        Hop(source="rank 0", target="every other rank", payload="the parameters", pattern=Communication.BROADCAST),
        Hop(
            source="every rank",
            target="the owner of each part",
            payload="that part of its gradient",
            pattern=Communication.REDUCE_SCATTER,
        ),
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
