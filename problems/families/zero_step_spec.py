"""What the problems of ZeRO stages 1 and 2 say alike: signature, arguments and outputs. No torch."""

from problems.families import mlp_step_spec as mlp
from problems.spec.schema import Argument, Output, Placement, Regime, Tolerance

SIGNATURE = "solution(X_local, y_local, W1, b1, W2, b2, exp_avg_part, exp_avg_sq_part, lr, beta1, beta2, eps, step)"

ARGUMENTS = (
    *mlp.SAMPLES,
    *(
        Argument(
            name=name,
            shape=shape,
            values="weights long-tailed, biases normal; different on every rank, rank 0's count",
        )
        for name, shape in mlp.SHAPES.items()
    ),
    Argument(name="exp_avg_part", shape=("part",), values="normal, a quarter of the gradient's size; the rank's part"),
    Argument(
        name="exp_avg_sq_part",
        shape=("part",),
        values="log-normal, a tenth of the squared gradient's size; the rank's part",
    ),
    *mlp.RATES,
    mlp.STEP,
)

STALE_COPIES = Regime(
    name="stale_copies",
    words="other ranks have rank 0's parameters in another order, so that their sums and ends tell no difference",
    settings={"copies": "moved on"},
)


def regimes(*, weights: Tolerance, others: Tolerance) -> tuple[Regime, ...]:
    """The regimes of both problems; `weights` is for the two matrices."""
    own = {"wide_ends": mlp.wide_ends(W1=weights, b1=others, W2=weights, b2=others)}
    return (*(own.get(regime.name, regime) for regime in mlp.REGIMES), STALE_COPIES, mlp.no_learning(*mlp.SHAPES))


def outputs(*, weights: Tolerance, others: Tolerance) -> tuple[Output, ...]:
    """All new parameters and the rank's part of the new moments; `weights` is for the two matrices."""
    parameters = (
        Output(
            name=name,
            shape=shape,
            placement=Placement.REPLICATED,
            tolerance=weights if name in ("W1", "W2") else others,
        )
        for name, shape in mlp.SHAPES.items()
    )
    moments = (
        Output(name=name, shape=("part",), placement=Placement.SHARDED, sharding=mlp.SHARDING, tolerance=others)
        for name in ("exp_avg_part", "exp_avg_sq_part")
    )
    return (*parameters, *moments)
