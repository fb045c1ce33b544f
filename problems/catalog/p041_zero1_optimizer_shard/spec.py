"""Training step with a sharded optimizer (ZeRO-1), described."""

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

SHAPES: dict[str, tuple[str | int, ...]] = {
    "W1": ("hidden", "d_in"),
    "b1": ("hidden",),
    "W2": ("d_out", "hidden"),
    "b2": ("d_out",),
}
TOLERANCE = Tolerance(
    atol=0.15,
    rtol=0.15,
    rms=0.022,
    calibration="2026-11-21, CPU, torch 2.13, gloo, bfloat16, 2 and 4 ranks, 12 calls, tiny: honest programs (every "
    "step rounded, float32, autograd with fused Adam) err by at most 0.03 and 0.0132 rms, the cheapest cheat "
    "(8-bit float payloads) by at least 0.13 and 0.037 rms: the rms decides.",
)
WEIGHTS = replace(
    TOLERANCE,
    rms=0.008,
    calibration="2026-11-21, CPU, torch 2.13, gloo, bfloat16, 2 and 4 ranks, 14 calls, tiny: honest programs err by at "
    "most 0.0031 rms, the cheapest cheat (8-bit float payloads) by at least 0.0215 rms. Moments alone are less far "
    "apart, but a program has to pass in all outputs. "
    "base, 4 ranks, 1 call: honest 0.0022, cheats 0.036.",
)


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """Two products forward, three backward (no gradient of the input); the optimizer touches the rank's part once.

    Parameters to every rank, the gradient reduced to the owner of each part, new parameters from the owners to all.
    """
    products = 2 * dims["d_in"] * dims["hidden"] + 3 * dims["hidden"] * dims["d_out"]
    state = dims["P"] * element_bytes
    share = (world_size - 1) / world_size
    data = element_bytes * dims["chunk"] * (dims["d_in"] + dims["d_out"])
    return Cost(
        flops={"matmul": 2 * dims["chunk"] * products, "fp32": 14 * dims["part"]},
        memory_bytes=data + 2 * state + 4 * dims["part"] * element_bytes,
        wire_bytes=(1 + 2 * share) * state,
        reference_wire_bytes=(1 + 3 * share) * state,
        note="The gradient need only reach the owner of each part, half of the all-reduce that the reference does.",
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
    signature="solution(X_local, y_local, W1, b1, W2, b2, exp_avg_part, exp_avg_sq_part, lr, beta1, beta2, eps, step)",
    arguments=(
        Argument(
            name="X_local", shape=("chunk", "d_in"), values="normal around a centre per rank, with a scale per feature"
        ),
        Argument(name="y_local", shape=("chunk", "d_out"), values="normal around a centre per rank"),
        *(
            Argument(
                name=name,
                shape=shape,
                values="weights long-tailed, biases normal; different on every rank, rank 0's count",
            )
            for name, shape in SHAPES.items()
        ),
        Argument(
            name="exp_avg_part", shape=("part",), values="normal, a quarter of the gradient's size; the rank's part"
        ),
        Argument(
            name="exp_avg_sq_part",
            shape=("part",),
            values="log-normal, a tenth of the squared gradient's size; the rank's part",
        ),
        _number("lr", "0.3 to 0.6 times the weights' standard deviation, secret"),
        _number("beta1", "0.6 to 0.8, secret"),
        _number("beta2", "0.85 to 0.95, secret"),
        _number("eps", "a tenth to four tenths of the gradient's size, secret"),
        _number("step", "1 to 7, secret: the number of this step", ArgumentKind.INTEGER),
    ),
    outputs=(
        *(
            Output(
                name=name,
                shape=shape,
                placement=Placement.REPLICATED,
                tolerance=WEIGHTS if name in ("W1", "W2") else TOLERANCE,
            )
            for name, shape in SHAPES.items()
        ),
        *(
            Output(
                name=name,
                shape=("part",),
                placement=Placement.SHARDED,
                sharding="rank r holds elements r*P/W to (r+1)*P/W - 1 of the flat vector",
                tolerance=TOLERANCE,
            )
            for name in ("exp_avg_part", "exp_avg_sq_part")
        ),
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
                samples=8192 * world_size, d_in=1600, hidden=6400, d_out=1600, world_size=world_size
            ),
            system="the MLP of one layer of the 1.5 billion parameter GPT-2 of the ZeRO paper (width 1600, four times "
            "that inside), 8 sequences of 1024 tokens per rank",
        ),
    },
    cost=cost,
    refuses_world_size=_refuses,
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
)
