"""Fully sharded data-parallel training step with AdamW, described."""

from dataclasses import replace

from problems.families import mlp_step_spec as mlp
from problems.spec.schema import (
    Argument,
    ArgumentKind,
    Cost,
    Dims,
    Hop,
    Output,
    Placement,
    Problem,
    Regime,
    Size,
    SizeName,
    Tolerance,
)
from problems.spec.taxonomy import Block, Communication, Domain, Parallelism, Stage

TOLERANCE = Tolerance(
    atol=0.15,
    rtol=0.15,
    rms=0.03,
    calibration="2026-11-21, CPU, torch 2.13, gloo, bfloat16, 2 and 4 ranks, 12 calls, tiny. Honest programs (every "
    "step rounded, float32, autograd with fused Adam) err by at most 0.028 and 0.0148 rms. The cheapest cheat (8-bit "
    "float payloads) errs by at least 0.08 and 0.031 rms. The rms decides. In 200 calls of honest programs it was at "
    "most 0.0171, as one large gradient can carry the second moments. At base, 4 ranks: honest at most 0.042 and "
    "0.0086 rms, cheats at least 0.36 and 0.10 rms.",
)
FIRST_MOMENT = replace(
    TOLERANCE,
    rms=0.0155,
    calibration="2026-11-21, CPU, torch 2.13, gloo, bfloat16, 2 and 4 ranks, 14 calls, tiny. Honest programs err by at "
    "most 0.0079 rms. The cheapest cheats (8-bit payloads) err by at least 0.0315 rms. At base, 4 ranks: 0.0035 and "
    "0.038. The other outputs alone are less far apart, but a program has to pass in all of them.",
)

# Without moments, all of an update follows from the gradient's own rounding.
FIRST_STEP = replace(
    mlp.FIRST_STEP,
    tolerances={
        "flat_param_shard": replace(
            TOLERANCE,
            atol=0.6,
            calibration="2026-11-29, CPU, torch 2.13, gloo, bfloat16, base, 2 ranks. Of 779 million elements of "
            "honest programs one erred by 0.98 times 0.3 of the parameters' size. An output of base has too few "
            "elements for extreme ones. The rms decides, as in the other calls.",
        )
    },
)

NO_MEMORY = replace(
    mlp.NO_MEMORY,
    tolerances={
        "flat_param_shard": replace(
            FIRST_STEP.tolerances["flat_param_shard"],
            calibration="2026-11-28, CPU, gloo, bfloat16, base, 2 ranks, 60 calls with beta2 0. Of 16 million elements "
            "of an honest program that rounds each step, one erred by 0.94 times 0.15 of the parameters' size, and the "
            "rms was at most 0.0073. The rms decides, as in the other calls.",
        )
    },
)
_OWN = {regime.name: regime for regime in (FIRST_STEP, NO_MEMORY, mlp.wide_ends(flat_param_shard=TOLERANCE))}


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """Two products forward, three backward (no gradient of the input); the optimizer touches the rank's shard once.

    Parameters gathered and the gradient scattered: (W-1)/W of all parameters each way, both times.
    """
    shard = dims["part"] * element_bytes
    moved = 2 * (world_size - 1) * shard
    return Cost(
        flops={"matmul": mlp.matmul_flops(dims), "fp32": 16 * dims["part"]},
        memory_bytes=mlp.sample_bytes(dims, element_bytes) + 6 * shard,
        wire_bytes=moved,
        reference_wire_bytes=moved,
    )


PROBLEM = Problem(
    number=47,
    slug="fsdp_step_e2e",
    title="FSDP training step of a two-layer MLP with AdamW",
    summary="One step of fully sharded data-parallel training with AdamW on the shards.",
    origin="PyTorch FSDP",
    parallelism=(Parallelism.FSDP,),
    communication=(Communication.ALL_GATHER, Communication.REDUCE_SCATTER),
    block=Block.OPTIMIZER,
    stage=(Stage.TRAINING,),
    domain=Domain.GENERIC,
    signature="solution(X_local, y_local, flat_param_shard, param_shapes, exp_avg_shard, exp_avg_sq_shard, lr, beta1, "
    "beta2, eps, weight_decay, step)",
    arguments=(
        *mlp.SAMPLES,
        Argument(
            name="flat_param_shard",
            shape=("part",),
            values="elements r*part to (r+1)*part - 1 of one model, weights long-tailed, biases normal",
        ),
        Argument(
            name="param_shapes",
            kind=ArgumentKind.INTEGERS,
            dtype="tuple of tuples of int",
            values="((hidden, d_in), (hidden,), (d_out, hidden), (d_out,))",
            replicated=True,
        ),
        Argument(name="exp_avg_shard", shape=("part",), values="normal, a quarter of the gradient's size"),
        Argument(name="exp_avg_sq_shard", shape=("part",), values="log-normal, a tenth of the squared gradient's size"),
        *mlp.RATES,
        mlp.number("weight_decay", "so large that it takes 0.2 to 0.8 of a parameter away, secret"),
        mlp.STEP,
    ),
    outputs=tuple(
        Output(
            name=name,
            shape=("part",),
            placement=Placement.SHARDED,
            sharding=mlp.SHARDING,
            tolerance=FIRST_MOMENT if name == "exp_avg_shard" else TOLERANCE,
        )
        for name in ("flat_param_shard", "exp_avg_shard", "exp_avg_sq_shard")
    ),
    sizes={
        **mlp.small_sizes(mlp.in_parts),
        SizeName.LARGE: Size(
            dims=lambda world_size: mlp.in_parts(
                samples=8192 * world_size, d_in=8192, hidden=28672, d_out=8192, world_size=world_size
            ),
            system="an MLP as wide as that of Llama 3.1 70B (hidden size 8192, 28672 inside; without its gate), one "
            "sequence of 8192 tokens per rank",
        ),
    },
    cost=cost,
    refuses_world_size=mlp.refuses_uneven_parts,
    world_size_rule="powers of two",
    hops=(
        Hop(source="rank r", target="every other rank", payload="its parameters", pattern=Communication.ALL_GATHER),
        Hop(
            source="every rank",
            target="the owner of each shard",
            payload="that part of its gradient",
            pattern=Communication.REDUCE_SCATTER,
        ),
    ),
    regimes=(
        *(_OWN.get(regime.name, regime) for regime in mlp.REGIMES),
        Regime(name="no_decay", words="weight_decay is 0", settings={"weight_decay": 0.0}, narrow="usual_numbers"),
        mlp.no_learning("flat_param_shard", narrow="usual_numbers"),
    ),
    invariants=(
        *mlp.step_of_network(values="Values are at most 2e16 in size, and nonzero ones at least 1e-28."),
        *mlp.IN_PARTS,
        "`weight_decay` is 0 or from 2 to 130, and `lr` times `weight_decay` is at most 0.84.",
    ),
)
