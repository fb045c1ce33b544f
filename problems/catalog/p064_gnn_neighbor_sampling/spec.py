"""Distributed multi-hop neighbour sampling, described."""

from problems.spec.ranges import Extent, Whole
from problems.spec.regimes import beyond_16_bits, other_extents
from problems.spec.schema import (
    EXACT,
    WORLD_GROUP,
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
)
from problems.spec.taxonomy import Block, Communication, Domain, Parallelism, Stage

_PRODUCTS = 2_449_029
"""Nodes of ogbn-products, which has 61859140 undirected edges: about 50 neighbours per node."""


def _dims(*, nodes: int, edges_per_node: int, seeds: int, world_size: int) -> Dims:
    """Nodes rounded up to a multiple of the world size; E entries in every rank's lists."""
    rounded = -(-nodes // world_size) * world_size
    return {"Nn": rounded, "pointers": rounded + 1, "E": rounded * edges_per_node, "S": seeds}


def _of_few_nodes(dims: Dims, _world_size: int) -> Dims:
    """What follows from another number of nodes: where lists end, and how many neighbours are in them, if any.

    No rank has more seeds than there are nodes.
    """
    edges = min(6 * dims["Nn"], 80_000) if dims["E"] else 0
    return {**dims, "S": min(dims["S"], dims["Nn"]), "pointers": dims["Nn"] + 1, "E": edges}


_REFERENCE_PAIRS = 40
"""Pairs of 8-byte numbers per seed that the reference moves: 41 on 8 ranks at base, counted; 39 on 4, 34 on 2."""


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """Counted for the first hop alone with four neighbours per seed, fewer than there are.

    The reference sends ids and numbers of nodes in both hops: per seed one id and one length, and the same again for
    each node of the second frontier. With two numbers per edge that is together about 40 pairs of 8 bytes.
    """
    del element_bytes
    seeds, remote = dims["S"], (world_size - 1) / world_size
    edges = 4 * seeds
    return Cost(
        flops={},
        memory_bytes=8 * (3 * seeds + 5 * edges),
        wire_bytes=remote * 4 * edges,
        reference_wire_bytes=remote * 16 * _REFERENCE_PAIRS * seeds,
        note="A floor: lengths and frontiers depend on the data, and only the first hop's neighbours are counted, with "
        "four bytes each.",
    )


_NODE = "node ids in [0, Nn)"

PROBLEM = Problem(
    number=64,
    slug="gnn_neighbor_sampling",
    title="Distributed multi-hop neighbour sampling",
    summary="Frontier nodes go to their owners, which return neighbours and edge numbers; new nodes are numbered.",
    origin="PyTorch Geometric (distributed neighbour sampler)",
    parallelism=(Parallelism.GRAPH,),
    communication=(Communication.ALL_TO_ALL, Communication.ALL_TO_ALL_V),
    block=Block.GRAPH,
    stage=(Stage.TRAINING,),
    domain=Domain.GRAPH,
    signature="solution(seed_nodes: Tensor, fanouts: list[int], local_adj_row_ptr: Tensor, local_adj_col: Tensor, "
    "node_to_rank: Tensor, group: ProcessGroup or None = None, replace: bool = False) "
    "-> tuple[Tensor, Tensor, Tensor, Tensor]",
    arguments=(
        Argument(name="seed_nodes", shape=("S",), dtype="int64", values=f"distinct random {_NODE}"),
        Argument(name="fanouts", kind=ArgumentKind.INTEGERS, shape=(2,), dtype="int", values="[10, 5] in timed calls"),
        Argument(
            name="local_adj_row_ptr",
            shape=("pointers",),
            dtype="int64",
            values="where each node's list begins; lists of other ranks' nodes are empty, those of own nodes "
            "long-tailed, an eighth of them empty",
        ),
        Argument(
            name="local_adj_col",
            shape=("E",),
            dtype="int64",
            values=f"neighbours: {_NODE}, some far more often than others; different on every rank, E of them in timed "
            "calls",
        ),
        Argument(
            name="node_to_rank",
            shape=("Nn",),
            dtype="int64",
            values="owner of every node, a random partition, new on every call",
            replicated=True,
        ),
        WORLD_GROUP,
        Argument(name="replace", kind=ArgumentKind.BOOLEAN, dtype="bool", values="False"),
    ),
    outputs=tuple(
        Output(name=name, shape=(length,), dtype="int64", placement=Placement.PER_RANK, tolerance=EXACT)
        for name, length in (("node", "sampled"), ("row", "edges"), ("col", "edges"), ("edge", "edges"))
    ),
    sizes={
        SizeName.TINY: Size(
            dims=lambda world_size: _dims(nodes=200, edges_per_node=6, seeds=12, world_size=world_size),
            system="a check on CPU ranks",
        ),
        SizeName.BASE: Size(
            dims=lambda world_size: _dims(
                nodes=10_000,
                edges_per_node=16,
                seeds=max(512, min(1024 // world_size, 2048)),
                world_size=world_size,
            ),
            system="the card's size: 512 seeds per rank, 10000 nodes",
        ),
        SizeName.LARGE: Size(
            dims=lambda world_size: _dims(
                nodes=_PRODUCTS, edges_per_node=max(1, 50 // world_size), seeds=1024, world_size=world_size
            ),
            system="OGB's ogbn-products (2449029 nodes, about 50 neighbours each), batches of 1024 seeds per rank",
        ),
    },
    cost=cost,
    hops=(
        Hop(source="rank r", target="owner", payload="ids of frontier nodes", pattern=Communication.ALL_TO_ALL_V),
        Hop(
            source="owner",
            target="rank r",
            payload="counts, neighbours and edge numbers",
            pattern=Communication.ALL_TO_ALL_V,
        ),
    ),
    mutants_not_applicable=dict.fromkeys(
        ("last_rank_skipped", "shards_wrong_order"),
        "changed counts would make ranks wait for ids that nobody sends; the mutant owners_by_remainder stands for it",
    )
    | dict.fromkeys(("squeezed_int8", "squeezed_float8"), "only integers travel"),
    notes=(
        "Every rank holds only the lists of its own nodes; the first neighbours of a list are taken, none at random.",
    ),
    counted_wire=Reading(
        least=0.6,
        most=1.1,
        reason="Counted at base; at tiny 200 nodes are soon all known, so the second frontier is smaller.",
    ),
    lengths_vary=True,
    regimes=(
        Regime(
            name="whole_lists",
            words="there are two or three hops, and the last fanout is negative, which takes whole lists",
            settings={
                "hops": Whole(low=2, high=3),
                "first": Whole(low=-100, high=12, often=(2, 3, 5)),
                "second": Whole(low=-100, high=12, often=(-1, 5)),
                "last": Whole(low=-100, high=-1),
            },
            at_large=False,
        ),
        Regime(
            name="whole_lists_first",
            words="the first fanout is negative, which takes whole lists, one of them of tens of thousands, and the "
            "second is not",
            settings={"first": Whole(low=-100, high=-1), "second": Whole(low=0, high=12), "hub": True},
            dims={"E": Extent(low=50_000, high=90_000)},
            at_large=False,
            narrow="usual_numbers",
        ),
        Regime(
            name="one_hop",
            words="there is one hop",
            settings={"hops": 1, "first": Whole(low=-100, high=12, often=(-1, -1, -1, 0))},
            narrow="usual_numbers",
        ),
        Regime(
            name="three_hops",
            words="there are three hops",
            settings={"hops": 3, **dict.fromkeys(("first", "second", "third"), Whole(low=0, high=12, often=(3, 5)))},
            narrow="usual_numbers",
        ),
        Regime(
            name="fanout_of_zero",
            words="fanouts are others than usual; where the second is 0, it takes no neighbour",
            settings={"first": Whole(low=0, high=12, often=(10,)), "second": Whole(low=0, high=12, often=(0, 0, 0, 0))},
        ),
        Regime(name="no_neighbours", words="no node has a neighbour", dims={"E": 0}),
        Regime(
            name="one_rank_owns_most",
            words="one rank owns three quarters of all nodes, and its part of the others",
            settings={"owners": "one_has_most"},
        ),
        Regime(
            name="one_rank_owns_all",
            words="one rank owns all nodes, and the lists of all others are empty",
            settings={"owners": "one_has_all"},
        ),
        Regime(
            name="uneven_lists",
            words="one rank has no neighbours in its lists, and others have unequally many",
            settings={"lists": "uneven"},
        ),
        Regime(
            name="seeds_of_one_owner",
            words="all seeds of all ranks belong to one rank, as far as it has so many nodes",
            settings={"seeds": "one_owner"},
        ),
        Regime(
            name="one_rank_finds_nothing",
            words="no seed of one rank has a neighbour, and the other ranks go on asking it",
            settings={"seeds": "one_is_lonely"},
            at_large=False,
        ),
        other_extents(Nn=Extent(high=700), S=Extent(high=600), derive=_of_few_nodes),
        beyond_16_bits(
            "many_nodes",
            Nn=Extent(low=80_000, high=100_000),
            S=Extent(low=20, high=60),
            derive=_of_few_nodes,
            narrow="",
        ),
    ),
    invariants=(
        "Tensors are contiguous.",
        "`group` is None, the world group.",
        "`replace` is False.",
        "There are one to three hops, and fanouts are -100 to 12, the same on all ranks.",
        "Seeds are distinct, and each rank has as many.",
        "A rank holds lists of its own nodes alone; lists may be empty, and may name a node twice.",
        "A rank has no more seeds than there are nodes.",
        "A rank may own no nodes and have an empty `local_adj_col`; nodes need not divide evenly among ranks.",
    ),
)
