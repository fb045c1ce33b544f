"""Data-parallel training step with Adam, described."""

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
    "step rounded, float32, autograd with fused Adam) err by at most 0.023 and 0.0148 rms, the cheapest cheat "
    "(8-bit float payloads) by at least 0.16 and 0.046 rms: the rms decides.",
)
WEIGHTS = replace(
    TOLERANCE,
    rms=0.008,
    calibration="2026-11-21, CPU, torch 2.13, gloo, bfloat16, 2 and 4 ranks, 14 calls, tiny: honest programs err by at "
    "most 0.0036 rms, the cheapest cheat (8-bit float payloads) by at least 0.0169 rms. Moments alone are less far "
    "apart, but a program has to pass in all outputs. base, 4 ranks, 2 calls: honest 0.0025.",
)


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """Two products forward, three backward (no gradient of the input); the optimizer touches every state once."""
    products = 2 * dims["d_in"] * dims["hidden"] + 3 * dims["hidden"] * dims["d_out"]
    state = dims["P"] * element_bytes
    share = (world_size - 1) / world_size
    return Cost(
        flops={"matmul": 2 * dims["chunk"] * products, "fp32": 14 * dims["P"]},
        memory_bytes=element_bytes * dims["chunk"] * (dims["d_in"] + dims["d_out"]) + 6 * state,
        wire_bytes=(3 + share) * state,
        reference_wire_bytes=(3 + 2 * share) * state,
        note="Least: parameters to every rank, the gradient reduced to owners of 1/W of it, who update their part of "
        "the moments and send these to every rank; each rank then finds the new parameters by itself. The reference "
        "all-reduces the gradient after broadcasting all state.",
    )


def _dims(*, samples: int, d_in: int, hidden: int, d_out: int, world_size: int) -> Dims:
    return {
        "chunk": -(-samples // world_size),
        "d_in": d_in,
        "hidden": hidden,
        "d_out": d_out,
        "P": hidden * d_in + hidden + d_out * hidden + d_out,
    }


def _state(prefix: str, values: str) -> tuple[Argument, ...]:
    return tuple(Argument(name=prefix + name, shape=shape, values=values) for name, shape in SHAPES.items())


def _number(name: str, values: str, kind: ArgumentKind = ArgumentKind.REAL) -> Argument:
    return Argument(name=name, kind=kind, dtype=kind.value, values=values, replicated=True)


PROBLEM = Problem(
    number=40,
    slug="ddp",
    title="Data-parallel training step of a two-layer MLP with Adam",
    summary="One step of data-parallel training: state from rank 0, own samples, mean gradient, Adam everywhere.",
    origin="PyTorch DistributedDataParallel",
    parallelism=(Parallelism.DATA,),
    communication=(Communication.BROADCAST, Communication.ALL_REDUCE),
    block=Block.OPTIMIZER,
    stage=(Stage.TRAINING,),
    domain=Domain.GENERIC,
    signature="solution(X_local, y_local, W1, b1, W2, b2, exp_avg_W1, exp_avg_b1, exp_avg_W2, exp_avg_b2, "
    "exp_avg_sq_W1, exp_avg_sq_b1, exp_avg_sq_W2, exp_avg_sq_b2, lr, beta1, beta2, eps, step)",
    arguments=(
        Argument(
            name="X_local", shape=("chunk", "d_in"), values="normal around a centre per rank, with a scale per feature"
        ),
        Argument(name="y_local", shape=("chunk", "d_out"), values="normal around a centre per rank"),
        *_state("", "weights long-tailed, biases normal; different on every rank, those of rank 0 count"),
        *_state("exp_avg_", "normal, a quarter of the gradient's size; those of rank 0 count"),
        *_state("exp_avg_sq_", "log-normal, a tenth of the squared gradient's size; those of rank 0 count"),
        _number("lr", "0.3 to 0.6 times the weights' standard deviation, secret"),
        _number("beta1", "0.6 to 0.8, secret"),
        _number("beta2", "0.85 to 0.95, secret"),
        _number("eps", "a tenth to four tenths of the gradient's size, secret"),
        _number("step", "1 to 7, secret: the number of this step", ArgumentKind.INTEGER),
    ),
    outputs=tuple(
        Output(
            name=f"{prefix}{name}",
            shape=shape,
            placement=Placement.REPLICATED,
            tolerance=TOLERANCE if prefix or name not in ("W1", "W2") else WEIGHTS,
        )
        for prefix in ("", "exp_avg_", "exp_avg_sq_")
        for name, shape in SHAPES.items()
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
            system="the MLP of one layer of GPT-2 XL (width 1600, four times that inside), 8 sequences of 1024 tokens "
            "per rank",
        ),
    },
    cost=cost,
    hops=(
        Hop(
            source="rank 0",
            target="every other rank",
            payload="parameters and both moments",
            pattern=Communication.BROADCAST,
        ),
        Hop(source="every rank", target="every rank", payload="its gradient, summed", pattern=Communication.ALL_REDUCE),
    ),
)
