"""Distributed discrete-continuous convolution on the sphere (DISCO), described."""

from collections.abc import Callable
from dataclasses import replace

from problems.spec.ranges import Among, Extent, Whole
from problems.spec.regimes import FLOAT32_VALUES, ZERO_VALUES, of_tensor, other_extents
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

ENTRIES = 4
"""Entries of the filter per basis function, output latitude and rank."""


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """Every entry of the filter meets every longitude of the rank's channels; then the channels are mixed.

    Mixing is a product of matrices, which tensor cores can do in several parts of fewer bits, exactly enough.
    Least on the wire, of three ways found. Every rank receives the whole field (filters and weights of peers are tiny).
    Or channels change places with longitudes, latitudes are gathered, and partial sums over channels go back. Or
    longitudes are gathered, and mixed results for other latitudes are summed where they belong.
    """
    del element_bytes  # float32 whatever the run's dtype
    block, columns, polar = dims["B"] * dims["nlat_l"], dims["nlon_l"], dims["P"]
    azimuth = world_size // polar
    field, result = (4 * block * columns * dims[channels] for channels in ("Cin", "Cout"))
    elsewhere = (azimuth - 1) / azimuth
    transposed = field * (elsewhere + polar - 1) + result * (azimuth - 1)
    mixed_first = field * (azimuth - 1) + result * (polar - 1)
    return Cost(
        flops={
            "matmul": 2 * block * columns * dims["Cout"] * dims["Cin"] * dims["Kk"],
            "fp32": 2 * dims["nnz"] * dims["B"] * dims["Cin"] // azimuth * dims["nlon"],
        },
        memory_bytes=field + result + 28 * dims["nnz"] + 4 * dims["Cout"] * (dims["Cin"] * dims["Kk"] + 1),
        wire_bytes=min(transposed, mixed_first, (world_size - 1) * field),
        reference_wire_bytes=field * (elsewhere + dims["Kk"] * (2 * (polar - 1) + elsewhere)),
        note="The reference adds up the contracted field, Kk times as large as the input, over the polar group, and "
        "throws away all of the sum but one latitude block; its second transposition is Kk times as large too.",
    )


def _grid(*, batch: int, channels: tuple[int, int], latitudes: int) -> Callable[[int], Dims]:
    """A grid of at least `latitudes`, rounded up so that the process grid cuts it evenly."""
    drawn = {"B": batch, "Cin": channels[0], "Cout": channels[1], "nlat": latitudes}
    return lambda world_size: _all_dims(drawn, world_size)


def _all_dims(dims: Dims, world_size: int) -> Dims:
    """All dimensions where those of the batch, its channels and its latitudes are set; these are rounded up."""
    azimuth = 2 if world_size % 2 == 0 else 1
    polar = world_size // azimuth
    nlat = -(-dims["nlat"] // polar) * polar
    nlon = -(-2 * nlat // azimuth) * azimuth
    return {
        "B": dims["B"],
        "Cin": dims["Cin"],
        "Cout": dims["Cout"],
        "C1": dims["Cin"],  # Cin // G with one group
        "Kk": 3,
        "P": polar,
        "nlat": nlat,
        "nlon": nlon,
        "nlat_l": nlat // polar,
        "nlon_l": nlon // azimuth,
        "columns": nlat // polar * nlon,
        "nnz": 3 * nlat * ENTRIES,
    }


PROBLEM = Problem(
    number=62,
    slug="torchharmonics_spherical_convolution",
    title="Distributed discrete-continuous convolution on the sphere (DISCO)",
    summary="A sparse filter is contracted with a field on a latitude x longitude process grid, for all shifts in "
    "longitude, and a weight mixes the channels.",
    origin="torch-harmonics (distributed discrete-continuous S2 convolution)",
    parallelism=(Parallelism.SPATIAL,),
    communication=(Communication.ALL_TO_ALL, Communication.ALL_REDUCE),
    block=Block.CONVOLUTION,
    stage=(Stage.TRAINING, Stage.INFERENCE),
    domain=Domain.SCIENCE,
    signature="solution(x: Tensor, psi: Tensor, weight: Tensor, groups: int, nlon_out: int, nlon_in: int, "
    "azimuth_group: Optional[ProcessGroup] = None, polar_group: Optional[ProcessGroup] = None, "
    "bias: Optional[Tensor] = None) -> Tensor",
    arguments=(
        Argument(
            name="x",
            shape=("B", "Cin", "nlat_l", "nlon_l"),
            dtype="float32",
            values="standard normal; the rank's latitudes and longitudes",
        ),
        Argument(
            name="psi",
            kind=ArgumentKind.SPARSE,
            shape=("Kk", "nlat", "columns"),
            dtype="float32",
            values="coalesced COO; in timed calls 4 entries per filter and output latitude, one in each quarter of the "
            "longitudes, at secret places in the rank's latitudes; values 0.5 times standard normal, different on "
            "every rank",
        ),
        Argument(name="weight", shape=("Cout", "C1", "Kk"), dtype="float32", values="standard normal"),
        Argument(name="groups", kind=ArgumentKind.INTEGER, dtype="int", values="1 in timed calls", replicated=True),
        Argument(name="nlon_out", kind=ArgumentKind.INTEGER, dtype="int", values="nlon", replicated=True),
        Argument(name="nlon_in", kind=ArgumentKind.INTEGER, dtype="int", values="nlon", replicated=True),
        Argument(
            name="azimuth_group",
            kind=ArgumentKind.GROUP,
            dtype="process group",
            values="the ranks that share this rank's latitudes: 2 neighbours, 1 rank where W is odd",
        ),
        Argument(
            name="polar_group",
            kind=ArgumentKind.GROUP,
            dtype="process group",
            values="the P ranks that share this rank's longitudes",
        ),
        Argument(name="bias", shape=("Cout",), dtype="float32", values="standard normal"),
    ),
    outputs=(
        Output(
            name="out",
            shape=("B", "Cout", "nlat_l", "nlon_l"),
            dtype="float32",
            placement=Placement.SHARDED,
            sharding="latitude block p and longitude block a on rank p*A + a, A being the size of the azimuth group",
            tolerance=Tolerance(
                atol=1e-4,
                rtol=0.0,
                rms=1.5e-5,
                calibration="2026-11-21, CPU, torch 2.13, gloo, float32, 2 and 4 ranks, tiny, 4 calls. Honest programs "
                "(gathered, by rolling the field, in float64) err by at most 7.4e-7 and 9.3e-8 rms of the output's "
                "size. The cheapest cheat (bfloat16 payload) errs by at least 1.1e-2 and 2.2e-3 rms. At base, on "
                "2 ranks: 9.4e-7 and 8.6e-8 against 2e-2 and 2.3e-3 rms.",
            ),
        ),
    ),
    sizes={
        SizeName.TINY: Size(dims=_grid(batch=2, channels=(4, 6), latitudes=12), system="a check on CPU ranks"),
        SizeName.BASE: Size(
            dims=_grid(batch=32, channels=(8, 8), latitudes=128), system="32 samples of 8 channels on 128 x 256 points"
        ),
        SizeName.LARGE: Size(
            dims=_grid(batch=1, channels=(384, 384), latitudes=720),
            system="a 0.25 degree global weather grid (720 x 1440) with 384 channels, the embedding dimension of "
            "spherical Fourier neural operators trained on ERA5",
        ),
    },
    cost=cost,
    groups="rank = p*A + a with A = 2 for an even world, else 1: azimuth groups are blocks of A neighbours, polar "
    "groups the ranks of equal a",
    hops=(
        Hop(
            source="every rank",
            target="its azimuth group",
            payload="its longitudes of the channels that the peer takes",
            pattern=Communication.ALL_TO_ALL,
        ),
        Hop(
            source="every rank",
            target="its polar group",
            payload="what its latitudes contribute to all output latitudes",
            pattern=Communication.ALL_REDUCE,
        ),
        Hop(
            source="every rank",
            target="its azimuth group",
            payload="its channels of the longitudes that the peer returns",
            pattern=Communication.ALL_TO_ALL,
        ),
    ),
    notes=(
        "weight, bias and the ranks' parts of psi differ even where a real layer has replicas: each rank's own count.",
        "One channel group in timed calls, and as many output as input longitudes.",
    ),
    regimes=(
        Regime(
            name="two_channel_groups",
            words="`groups` is 2, and there are other numbers of samples, channels and latitudes, rounded up",
            settings={"groups": 2},
            dims={
                "B": Whole(low=1, high=40),
                "Cin": Extent(low=4, high=28, of=4),
                "Cout": Extent(low=2, high=30, of=2),
                "nlat": Extent(low=4, high=19),
            },
            derive=_all_dims,
        ),
        replace(
            other_extents(
                B=Extent(high=4),
                Cin=Extent(low=4, high=72, of=4),
                Cout=Extent(low=2, high=70, of=2),
                nlat=Extent(low=4, high=70),
                derive=_all_dims,
            ),
            words="there are other numbers of samples, channels and latitudes, rounded up, and of groups that divide "
            "the channels",
            settings={"groups": Among(options=("1", "2", "4"))},
        ),
        Regime(
            name="four_channel_groups",
            words="`groups` is 4, and there are 8 output channels",
            settings={"groups": 4},
            dims={"Cout": 8},
        ),
        Regime(
            name="uneven_rows",
            words="rows of psi have from none to 8 entries, as many in all as in timed calls, and the first latitude "
            "of every rank's x is zero",
            settings={"rows": "uneven", "first_latitude": "zero"},
        ),
        Regime(
            name="long_rows",
            words="few rows of psi have entries, 64 at any places, or as many as there are places; in all there are "
            "three times as many as in timed calls, or about as many",
            settings={"rows": Among(options=("long_and_many", "long"))},
            at_large=False,
        ),
        Regime(
            name="empty_filter",
            words="psi has no entries on one rank, and as many as in timed calls on every other",
            settings={"rows": "none_on_one_rank"},
        ),
        Regime(
            name="huge_filters",
            words="values of psi are around ten million, and those of weight as much smaller, or the other way round",
            settings={"filter": Among(options=("huge", "tiny"))},
            narrow="saturates_at_65536",
        ),
        *of_tensor("x and bias", *FLOAT32_VALUES[:2]),
        replace(
            ZERO_VALUES,
            words="all values of x and bias are zero, or of x or of weight alone",
            settings={"values": "zero", "zeros": Among(options=("x", "weight", "x and bias"))},
        ),
        *of_tensor("x and bias", *FLOAT32_VALUES[3:]),
    ),
    invariants=(
        "Tensors are contiguous, and `psi` is coalesced.",
        "Values are zero, or from 1e-19 to 2e8 in size.",
        "`azimuth_group` and `polar_group` are those of the process grid, never None.",
        "`bias` is a tensor.",
        "`nlon_out` is `nlon_in`, and all ranks have tensors of the same shapes, but for the entries of `psi`.",
        "There are twice as many longitudes as latitudes, and both are cut into equal blocks.",
        "Input channels are a multiple of 4 and output channels of 2; `groups` is 1, 2 or 4 and divides both.",
        "There are 3 basis functions, and a row of `psi` has 64 entries at most, or none.",
    ),
)
