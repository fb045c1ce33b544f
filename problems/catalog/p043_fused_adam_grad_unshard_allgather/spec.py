"""Adam on a parameter shard, then all-gather, described."""

from dataclasses import replace

from problems.families import mlp_step_spec as mlp
from problems.spec.ranges import Among, Extent
from problems.spec.regimes import ONE_RANK_HAS_VALUES, long_extent, other_extents
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
from problems.spec.world_sizes import divisors_of

LAYER = 855_654_400
"""Parameters of one decoder layer of Llama 3.1 70B: attention, MLP (3 x 8192 x 28672) and norms."""


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """Four shards are read, the own share and everyone else's written; each rank receives all shards but its own."""
    shard = dims["P"] * element_bytes
    moved = (world_size - 1) * shard
    return Cost(
        flops={"fp32": 14 * dims["P"]},
        memory_bytes=4 * shard + world_size * shard,
        wire_bytes=moved,
        reference_wire_bytes=moved,
    )


def all_parameters(dims: Dims, world_size: int) -> Dims:
    """The parameters of all ranks, for a rank's own."""
    return {**dims, "all": world_size * dims["P"]}


def _number(name: str, values: str, kind: ArgumentKind = ArgumentKind.REAL) -> Argument:
    return Argument(name=name, kind=kind, dtype=kind.value, values=values, replicated=True)


PROBLEM = Problem(
    number=43,
    slug="fused_adam_grad_unshard_allgather",
    title="Adam on a parameter shard followed by all-gather",
    summary="Every rank updates its shard of the parameters with Adam, and all ranks get all new parameters.",
    origin=None,
    parallelism=(Parallelism.ZERO,),
    communication=(Communication.ALL_GATHER,),
    block=Block.OPTIMIZER,
    stage=(Stage.TRAINING,),
    domain=Domain.GENERIC,
    signature="solution(grad_shard, master_shard, exp_avg, exp_avg_sq, lr, beta1, beta2, eps, step)",
    arguments=(
        Argument(name="grad_shard", shape=("P",), values="standard normal"),
        Argument(name="master_shard", shape=("P",), values="long-tailed, of size 1"),
        Argument(name="exp_avg", shape=("P",), values="normal, standard deviation 1/4"),
        Argument(name="exp_avg_sq", shape=("P",), values="log-normal, median 1/10"),
        _number("lr", "0.3 to 0.6, secret: it shows beside parameters of size 1"),
        _number("beta1", "0.6 to 0.8, secret"),
        _number("beta2", "0.85 to 0.95, secret"),
        _number("eps", "0.1 to 0.4, secret"),
        _number("step", "1 to 7, secret: the number of this step", ArgumentKind.INTEGER),
    ),
    outputs=(
        Output(
            name="gathered",
            shape=("all",),
            placement=Placement.REPLICATED,
            tolerance=Tolerance(
                atol=0.06,
                rtol=0.04,
                rms=0.006,
                calibration="2026-11-21, CPU, torch 2.13, gloo, bfloat16, 2 and 4 ranks, tiny. Honest programs (every "
                "step rounded, float32, gathered before the update) err by at most 0.007 and 0.0023 rms. The cheapest "
                "cheat (8-bit float payload) errs by at least 0.039 and 0.016 rms. The rms decides: in 200 calls one "
                "element erred by 0.014.",
            ),
        ),
    ),
    sizes={
        SizeName.TINY: Size(
            dims=lambda world_size: {"P": 1200, "all": 1200 * world_size}, system="a check on CPU ranks"
        ),
        SizeName.BASE: Size(
            dims=lambda world_size: {"P": 4096, "all": 4096 * world_size}, system="8 KiB per rank: latency alone"
        ),
        SizeName.LARGE: Size(
            dims=lambda world_size: {"P": LAYER // world_size, "all": LAYER},
            system="one decoder layer of Llama 3.1 70B (855 654 400 parameters), the unit that a sharded optimizer "
            "updates and gathers at a time",
        ),
    },
    cost=cost,
    refuses_world_size=divisors_of(LAYER, needs=f"at least 2 ranks, a divisor of {LAYER} parameters"),
    world_size_rule="a divisor of 855654400: powers of two",
    hops=(
        Hop(
            source="every rank",
            target="every other rank",
            payload="its new parameters",
            pattern=Communication.ALL_GATHER,
        ),
    ),
    regimes=(
        Regime(
            name="tiny_gradients",
            words="gradients are below 1e-6 in size, and moments are as small",
            settings={"values": "tiny"},
        ),
        Regime(
            name="huge_gradients",
            words="gradients are around ten million, and moments are as large",
            settings={"values": "huge"},
        ),
        Regime(
            name="zero_gradients",
            words="gradients and moments (all, or the second ones) are zero, and eps is 1e-9 or less",
            settings={"values": "zero", "moments": Among(options=("second_zero", "zero")), "eps": mlp.LEAST_EPS},
            hides=True,
        ),
        replace(
            ONE_RANK_HAS_VALUES,
            words="all values of grad_shard are zero on every rank but one, where the first half of them may be",
            settings={"values": "one_rank", "first_half": Among(options=("zero", "kept"))},
        ),
        Regime(
            name="huge_parameters",
            words="parameters are around ten million, beyond the range of float16, and lr is as much larger",
            settings={"parameters": "huge"},
            dtypes=("bfloat16", "float32"),
            narrow="in_float16",
        ),
        Regime(
            name="tiny_parameters",
            words="parameters are below 1e-4 in size, and lr is as much smaller",
            settings={"parameters": "tiny"},
            dtypes=("bfloat16", "float32"),
            narrow="drops_what_is_tiny",
        ),
        Regime(
            name="zero_shards",
            words="parameters, gradients and moments are zero",
            settings={"parameters": "zero", "values": "zero", "moments": "zero"},
            hides=True,
            narrow="divides_by_the_largest",
        ),
        mlp.FIRST_STEP,
        *mlp.NUMBERS_OF_ADAM,
        mlp.no_learning("gathered"),
        replace(other_extents(P=Extent(low=150, high=5000), derive=all_parameters, narrow=""), at_large=False),
        replace(long_extent("long_shards", P=Extent(low=33_000, high=70_000), derive=all_parameters), at_large=False),
    ),
    invariants=(
        *mlp.step_of_adam(
            values="Values are at most 2e15 in size, and nonzero ones at least 1e-18.",
            eps="from 1e-14 to 7e6",
            lr="from 1.7e-8 to 1.1e7",
        ),
        "All ranks have shards of the same length, which need not be a multiple of anything.",
    ),
)
