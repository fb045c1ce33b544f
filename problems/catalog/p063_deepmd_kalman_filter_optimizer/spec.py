"""Layer-wise extended Kalman filter step with sharded covariance blocks, described."""

from dataclasses import replace

from problems.spec.ranges import Among, Extent, Real
from problems.spec.regimes import (
    HUGE_VALUES,
    ONE_RANK_HAS_VALUES,
    TINY_VALUES,
    ZERO_VALUES,
    of_tensor,
    other_extents,
)
from problems.spec.schema import (
    Argument,
    ArgumentKind,
    Cost,
    Dims,
    Hop,
    Output,
    Placement,
    Problem,
    Reading,
    Regime,
    Size,
    SizeName,
    Tolerance,
)
from problems.spec.taxonomy import Block, Communication, Domain, Parallelism, Stage

TOLERANCE = Tolerance(
    atol=5e-12,
    rtol=0.0,
    rms=5e-13,
    calibration="2026-11-21, CPU, torch 2.13, gloo, float64, 2 and 4 ranks, tiny, 4 calls. Honest programs (in place, "
    "batched) err by at most 2.1e-15 and 4e-16 rms of the output's size. The cheapest cheats (gain or payload rounded "
    "to float32) err by at least 2.1e-8 and 2e-9 rms. At base, 2 ranks: 9.5e-15 and 7.8e-16 against 1.3e-7 and 1.9e-9 "
    "rms.",
)


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """One product of a covariance with a vector, then its rank-one update and scaling, per block.

    The covariance is symmetric, so half of it determines the whole; all of it is written.
    """
    del element_bytes  # float64 whatever the run's dtype
    weights = dims["nb"] * dims["nk"]
    covariance = weights * dims["nk"]
    wire = 8 * (world_size - 1) * weights + 2 * (world_size - 1) / world_size * 8
    return Cost(
        flops={"fp64": 5 * covariance},
        memory_bytes=8 * (1.5 * covariance + 2 * weights + world_size * weights),
        wire_bytes=wire,
        reference_wire_bytes=wire,
        note="A covariance that stays on the chip is read once; the gain needs the sum over all ranks before the "
        "update can begin, so large ones are read twice.",
    )


def _blocks(*, nb: int, nk: int, world_size: int) -> Dims:
    return {"nb": nb, "nk": nk, "all": nb * world_size}


_MOST_ENTRIES = 500_000
"""Of a rank's covariances, where they are others than usual: more take long on processors."""


def _all_blocks(dims: Dims, world_size: int) -> Dims:
    """The blocks of all ranks, where a rank has others than usual: the fewer, the larger they are."""
    most = max(1, _MOST_ENTRIES // dims["nk"] ** 2)
    return {**dims, **_blocks(nb=min(dims["nb"], most), nk=dims["nk"], world_size=world_size)}


def _written(name: str, argument: str, shape: tuple[str | int, ...], sharding: str) -> Output:
    return Output(
        name=name,
        shape=shape,
        dtype="float64",
        placement=Placement.SHARDED,
        sharding=sharding,
        tolerance=TOLERANCE,
        argument=argument,
        is_list=True,
    )


PROBLEM = Problem(
    number=63,
    slug="deepmd_kalman_filter_optimizer",
    title="Layer-wise Kalman filter optimizer step with sharded covariance blocks",
    summary="One extended Kalman filter update of weights in blocks: a gain that depends on all ranks' blocks, updates "
    "of the rank's own, and all new weights on every rank.",
    origin="DeePMD-kit (PyTorch LKF optimizer)",
    parallelism=(Parallelism.DATA, Parallelism.ZERO),
    communication=(Communication.ALL_REDUCE, Communication.ALL_GATHER),
    block=Block.OPTIMIZER,
    stage=(Stage.TRAINING,),
    domain=Domain.SCIENCE,
    signature="solution(H: List[Tensor], error: Tensor, weights: List[Tensor], P: List[Tensor], kalman_lambda: float, "
    "kalman_nue: float = 0.9987) -> Tuple[List[Tensor], List[Tensor], Tensor]",
    arguments=(
        Argument(
            name="H",
            kind=ArgumentKind.TENSORS,
            shape=("nk", 1),
            count="nb",
            dtype="float64",
            values="normal, for the most part in the two directions in which P is large",
        ),
        Argument(name="error", shape=(), dtype="float64", values="1 to 3 with a random sign, different on every rank"),
        Argument(
            name="weights",
            kind=ArgumentKind.TENSORS,
            shape=("nk", 1),
            count="nb",
            dtype="float64",
            values="normal, standard deviation 0.05",
            mutable=True,
        ),
        Argument(
            name="P",
            kind=ArgumentKind.TENSORS,
            shape=("nk", "nk"),
            count="nb",
            dtype="float64",
            values="dense and positive definite: a diagonal of 0.5 to 1.5 and a random matrix of rank two",
            mutable=True,
        ),
        Argument(
            name="kalman_lambda",
            kind=ArgumentKind.REAL,
            dtype="float",
            values="in timed calls 0.9 to 0.99, secret",
            replicated=True,
        ),
        Argument(
            name="kalman_nue",
            kind=ArgumentKind.REAL,
            dtype="float",
            values="in timed calls 0.9 to 0.999, secret",
            replicated=True,
        ),
    ),
    outputs=(
        Output(
            name="weights",
            shape=("all", "nk", 1),
            dtype="float64",
            placement=Placement.REPLICATED,
            tolerance=TOLERANCE,
            is_list=True,
        ),
        Output(
            name="P",
            shape=("nb", "nk", "nk"),
            dtype="float64",
            placement=Placement.SHARDED,
            sharding="the rank's own blocks",
            tolerance=TOLERANCE,
            is_list=True,
        ),
        Output(
            name="kalman_lambda_next",
            shape=(),
            dtype="float64",
            placement=Placement.REPLICATED,
            tolerance=TOLERANCE,
        ),
        _written("own_weights", "weights", ("nb", "nk", 1), "the rank's own blocks"),
        _written("own_P", "P", ("nb", "nk", "nk"), "the rank's own blocks"),
    ),
    sizes={
        SizeName.TINY: Size(
            dims=lambda world_size: _blocks(nb=3, nk=20, world_size=world_size), system="a check on CPU ranks"
        ),
        SizeName.BASE: Size(
            dims=lambda world_size: _blocks(nb=8, nk=1024, world_size=world_size),
            system="8 blocks of 1024 weights per rank: covariances of 64 MiB",
        ),
        SizeName.LARGE: Size(
            dims=lambda world_size: _blocks(nb=8, nk=5120, world_size=world_size),
            system="8 blocks per rank of 5120 weights, the default block size of DeePMD-kit's Kalman filter "
            "(kf_blocksize): covariances of 1.6 GiB",
        ),
    },
    cost=cost,
    hops=(
        Hop(
            source="every rank",
            target="every rank",
            payload="one float64: its blocks' share of the gain's denominator",
            pattern=Communication.ALL_REDUCE,
        ),
        Hop(
            source="every rank",
            target="every other rank",
            payload="its new weights",
            pattern=Communication.ALL_GATHER,
        ),
    ),
    notes=(
        "All ranks have equally many blocks of one size, so no shapes need to be exchanged.",
        "Each rank uses its own error, as the card says; in the real optimizer all ranks have the same.",
    ),
    counted_flops=Reading(
        least=0.4,
        most=0.43,
        reason="Only the products of covariances and derivatives are counted, 2 of 5 operations: the rank-one "
        "update is element-wise.",
    ),
    regimes=(
        *of_tensor(
            "weights and errors",
            replace(TINY_VALUES, narrow=""),
            replace(HUGE_VALUES, narrow=""),
            ZERO_VALUES,
            ONE_RANK_HAS_VALUES,
        ),
        Regime(
            name="beyond_float32",
            words="weights and errors are around 1e60, beyond the range of float32",
            settings={"unit": 2.0**200},
        ),
        Regime(
            name="zero_derivatives",
            words="derivatives H are zero: all, so that no weight moves, or those of one block of every rank",
            settings={"derivatives": Among(options=("all_zero", "first_zero", "one_zero"))},
        ),
        Regime(
            name="huge_derivatives",
            words="derivatives H are 2^24 to 2^80 times as large as in timed calls, so that lambda hardly counts",
            settings={"derivatives": Real(low=2.0**24, high=2.0**80, by_size=True)},
        ),
        Regime(
            name="nothing_forgotten",
            words="kalman_lambda and kalman_nue are 1",
            settings={"kalman_lambda": 1.0, "kalman_nue": 1.0},
            narrow="usual_numbers",
        ),
        Regime(
            name="much_forgotten",
            words="kalman_lambda and kalman_nue are other numbers",
            settings={"kalman_lambda": Real(low=0.01, high=1.0, often=(0.5,)), "kalman_nue": Real(low=0.0, high=1.0)},
            narrow="usual_numbers",
        ),
        replace(
            other_extents(nb=Extent(high=40), nk=Extent(high=1100), derive=_all_blocks),
            words="tensors have other extents than usual; where P is sparse, the first weight of a block and half of "
            "the others are uncorrelated",
            settings={"P": Among(options=("sparse", "usual"))},
        ),
    ),
    invariants=(
        "Tensors are contiguous.",
        "Weights and errors are at most 1e68 in size, derivatives 1e26; what is not zero is 1e-20 at least.",
        "All ranks have equally many blocks of one size.",
        "Covariances are symmetric, have eigenvalues from 0.5 to 10,000, and no entry beyond 100 in size.",
        "`kalman_lambda` is 0.01 to 1 and `kalman_nue` is 0 to 1, the same on all ranks.",
    ),
)
