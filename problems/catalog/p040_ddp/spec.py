"""Data-parallel training step with Adam, described."""

from dataclasses import replace

from problems.families import mlp_step_spec as mlp
from problems.families.zero_step_spec import STALE_COPIES
from problems.spec.ranges import Among, Extent
from problems.spec.schema import (
    Argument,
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
    "step rounded, float32, autograd with fused Adam) err by at most 0.023 and 0.0148 rms. The cheapest cheat (8-bit "
    "float payloads) errs by at least 0.16 and 0.046 rms. The rms decides. In 200 calls of honest programs it was at "
    "most 0.0171, as one large gradient can carry the second moments.",
)
WEIGHTS = replace(
    TOLERANCE,
    rms=0.008,
    calibration="2026-11-21, CPU, torch 2.13, gloo, bfloat16, 2 and 4 ranks, 14 calls, tiny. Honest programs err by at "
    "most 0.0036 rms. The cheapest cheat (8-bit float payloads) errs by at least 0.0169 rms. Moments alone are less "
    "far apart, but a program has to pass in all outputs. At base, 4 ranks, 2 calls: honest 0.0025.",
)


def odd_network(dims: Dims, _world_size: int) -> Dims:
    """The number of parameters of a regime's network, which may be odd."""
    return {**dims, "P": dims["hidden"] * (dims["d_in"] + 1 + dims["d_out"]) + dims["d_out"]}


# Gradients that cannot be cut into as many equal parts as there are ranks.
ODD_SIZES = replace(
    mlp.ODD_SIZES,
    dims={
        "chunk": Extent(low=8, high=150),
        "d_in": Extent(low=15, high=150),
        "hidden": Extent(low=31, high=130),
        "d_out": Extent(low=13, high=40),
    },
    derive=odd_network,
)


def long_network(regime: Regime, **extents: Extent) -> Regime:
    """A regime of other steps with the extents that are legal here."""
    return replace(regime, dims={**regime.dims, **extents}, derive=odd_network)


_HUGE_WEIGHTS = next(regime for regime in mlp.REGIMES if regime.name == "huge_weights")
_OWN = {
    "odd_sizes": ODD_SIZES,
    "many_samples": long_network(mlp.MANY_SAMPLES, d_out=Extent(low=13, high=33)),
    "wide_ends": long_network(
        mlp.wide_ends(W1=WEIGHTS, b1=TOLERANCE, W2=WEIGHTS, b2=TOLERANCE), d_out=Extent(low=260, high=330)
    ),
    "huge_weights": replace(
        _HUGE_WEIGHTS,
        words=f"{_HUGE_WEIGHTS.words}; or W2 is below 1e-12 (last_tiny). Where gradients of the first layer are "
        "then far smaller than others, so are its moments",
        settings={"weights": Among(options=("zero", "last_tiny", "unequal", "huge"))},
    ),
}
"""What regimes of other steps are here, by name."""


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """Two products forward, three backward (no gradient of the input); the optimizer touches every state once."""
    state = dims["P"] * element_bytes
    share = (world_size - 1) / world_size
    return Cost(
        flops={"matmul": mlp.matmul_flops(dims), "fp32": 14 * dims["P"]},
        memory_bytes=mlp.sample_bytes(dims, element_bytes) + 6 * state,
        wire_bytes=(3 + share) * state,
        reference_wire_bytes=(3 + 2 * share) * state,
        note="Least: the parameters go to every rank, and the gradient is reduced to owners of 1/W of it. These update "
        "their part of the moments and send it to every rank. Each rank then computes the new parameters. The "
        "reference all-reduces the gradient after broadcasting all state.",
    )


def _state(prefix: str, values: str) -> tuple[Argument, ...]:
    return tuple(Argument(name=prefix + name, shape=shape, values=values) for name, shape in mlp.SHAPES.items())


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
        *mlp.SAMPLES,
        *_state("", "weights long-tailed, biases normal; different on every rank, those of rank 0 count"),
        *_state("exp_avg_", "normal, a quarter of the gradient's size; those of rank 0 count"),
        *_state("exp_avg_sq_", "log-normal, a tenth of the squared gradient's size; those of rank 0 count"),
        *mlp.RATES,
        mlp.STEP,
    ),
    outputs=tuple(
        Output(
            name=f"{prefix}{name}",
            shape=shape,
            placement=Placement.REPLICATED,
            tolerance=TOLERANCE if prefix or name not in ("W1", "W2") else WEIGHTS,
        )
        for prefix in ("", "exp_avg_", "exp_avg_sq_")
        for name, shape in mlp.SHAPES.items()
    ),
    sizes={
        **mlp.small_sizes(mlp.whole),
        SizeName.LARGE: Size(
            dims=lambda world_size: mlp.whole(
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
    regimes=(
        *(_OWN.get(regime.name, regime) for regime in mlp.REGIMES),
        STALE_COPIES,
        mlp.no_learning(*mlp.SHAPES),
    ),
    invariants=(
        *mlp.step_of_network(
            values="Values are at most 2e16 in size. Nonzero second moments are at least 1e-40, and other nonzero "
            "elements at least 1e-28."
        ),
        "`d_out` may be odd, as may the number of parameters.",
        "All ranks have tensors of the same shapes.",
    ),
)
