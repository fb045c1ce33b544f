"""Fully sharded data-parallel training step with AdamW, described."""

from dataclasses import replace

from problems.schema import (
    Argument,
    ArgumentKind,
    Cost,
    Dims,
    Hop,
    Output,
    Placement,
    Problem,
    Size,
    SizeName,
    Tolerance,
)
from problems.taxonomy import Block, Communication, Domain, Parallelism, Stage

TOLERANCE = Tolerance(
    atol=0.15,
    rtol=0.15,
    rms=0.022,
    calibration="2026-11-21, CPU, torch 2.13, gloo, bfloat16, 2 and 4 ranks, 12 calls, tiny: honest programs (every "
    "step rounded, float32, autograd with fused Adam) err by at most 0.028 and 0.0148 rms, the cheapest cheat "
    "(8-bit float payloads) by at least 0.08 and 0.031 rms: the rms decides. "
    "base, 4 ranks: honest at most 0.042 and 0.0086 rms, cheats at least 0.36 and 0.10 rms.",
)
FIRST_MOMENT = replace(
    TOLERANCE,
    rms=0.0155,
    calibration="2026-11-21, CPU, torch 2.13, gloo, bfloat16, 2 and 4 ranks, 14 calls, tiny: honest programs err by at "
    "most 0.0079 rms, the cheapest cheats (8-bit payloads) by at least 0.0315 rms; base, 4 ranks: 0.0035 and 0.038. "
    "The other outputs alone are less far apart, but a program has to pass in all of them.",
)


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """Two products forward, three backward (no gradient of the input); the optimizer touches the rank's shard once.

    Parameters gathered and the gradient scattered: (W-1)/W of all parameters each way, both times.
    """
    products = 2 * dims["d_in"] * dims["hidden"] + 3 * dims["hidden"] * dims["d_out"]
    shard = dims["part"] * element_bytes
    data = element_bytes * dims["chunk"] * (dims["d_in"] + dims["d_out"])
    moved = 2 * (world_size - 1) * shard
    return Cost(
        flops={"matmul": 2 * dims["chunk"] * products, "fp32": 16 * dims["part"]},
        memory_bytes=data + 6 * shard,
        wire_bytes=moved,
        reference_wire_bytes=moved,
    )


def _dims(*, samples: int, d_in: int, hidden: int, d_out: int, world_size: int) -> Dims:
    """Sizes with the least hidden width from `hidden` on that lets the parameters be cut into equal parts."""
    while (hidden * (d_in + 1 + d_out) + d_out) % world_size:
        hidden += 1
    parameters = hidden * (d_in + 1 + d_out) + d_out
    return {
        "chunk": -(-samples // world_size),
        "d_in": d_in,
        "hidden": hidden,
        "d_out": d_out,
        "P": parameters,
        "part": parameters // world_size,
    }


def _refuses(world_size: int) -> str | None:
    is_power = world_size >= 2 and world_size & (world_size - 1) == 0
    return None if is_power else f"needs a power of two from 2 on, got {world_size}"


def _number(name: str, values: str, kind: ArgumentKind = ArgumentKind.REAL) -> Argument:
    return Argument(name=name, kind=kind, dtype=kind.value, values=values, replicated=True)


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
        Argument(
            name="X_local", shape=("chunk", "d_in"), values="normal around a centre per rank, with a scale per feature"
        ),
        Argument(name="y_local", shape=("chunk", "d_out"), values="normal around a centre per rank"),
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
        _number("lr", "0.3 to 0.6 times the weights' standard deviation, secret"),
        _number("beta1", "0.6 to 0.8, secret"),
        _number("beta2", "0.85 to 0.95, secret"),
        _number("eps", "a tenth to four tenths of the gradient's size, secret"),
        _number("weight_decay", "so large that it takes 0.2 to 0.8 of a parameter away, secret"),
        _number("step", "1 to 7, secret: the number of this step", ArgumentKind.INTEGER),
    ),
    outputs=tuple(
        Output(
            name=name,
            shape=("part",),
            placement=Placement.SHARDED,
            sharding="rank r holds elements r*P/W to (r+1)*P/W - 1 of the flat vector",
            tolerance=FIRST_MOMENT if name == "exp_avg_shard" else TOLERANCE,
        )
        for name in ("flat_param_shard", "exp_avg_shard", "exp_avg_sq_shard")
    ),
    sizes={
        SizeName.TINY: Size(
            dims=lambda world_size: _dims(samples=64, d_in=24, hidden=40, d_out=16, world_size=world_size),
            system="a check on CPU ranks",
        ),
        SizeName.BASE: Size(
            dims=lambda world_size: _dims(samples=1024, d_in=256, hidden=512, d_out=256, world_size=world_size),
            system="1024 samples in all, 0.26 million parameters: latency alone",
        ),
        SizeName.LARGE: Size(
            dims=lambda world_size: _dims(
                samples=8192 * world_size, d_in=8192, hidden=28672, d_out=8192, world_size=world_size
            ),
            system="an MLP as wide as that of Llama 3.1 70B (hidden size 8192, 28672 inside; without its gate), one "
            "sequence of 8192 tokens per rank",
        ),
    },
    cost=cost,
    refuses_world_size=_refuses,
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
)
