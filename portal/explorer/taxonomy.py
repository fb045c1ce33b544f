"""The problems as a matrix of block and parallelism, and on the edges of a transformer's layer.

The layer, split in every usual way, with the collective on each edge, is `problems/data/layers.toml`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from urllib.parse import urlencode

import msgspec

from portal.catalog.facets import FACETS, NONE
from portal.catalog.templatetags.pkb import score as score_text
from portal.ranking.queries import BoardRow
from problems import registry
from problems.spec.schema import Problem
from problems.spec.taxonomy import BLOCK_GROUPS, Block, BlockGroup, Communication, Parallelism


class Layer(StrEnum):
    """The example layers that readers choose from."""

    DENSE = "dense"
    MOE = "moe"


LAYER_LABELS = {Layer.DENSE: "Dense", Layer.MOE: "Mixture of experts"}
_LAST = {Layer.DENSE: Block.MLP, Layer.MOE: Block.MOE}


class Edge(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A collective: what it moves, and of which blocks and which kinds of parallelism the problems on it are."""

    pattern: Communication
    moves: str
    blocks: tuple[Block, ...]
    ways: tuple[Parallelism, ...]

    def problems(self, every: Sequence[Problem]) -> list[Problem]:
        """Those of `every` that ask for the pattern, in one of the blocks and split in one of the ways."""
        return [
            problem
            for problem in every
            if self.pattern in problem.communication
            and problem.block in self.blocks
            and not set(self.ways).isdisjoint(problem.parallelism)
        ]


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of a layer: what a rank holds, and names of the edges inside it and from it to the next part."""

    block: Block
    how: str
    inside: str = ""
    after: tuple[str, ...] = ()


class Lane(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A layer split in one way; `beside` are the edges outside its forward pass, by the moment in a step."""

    title: str
    parts: tuple[Part, Part, Part, Part]
    beside: dict[str, str] = {}
    note: str = ""

    def edges(self) -> list[str]:
        """The names of its edges, in their order."""
        return [*[name for part in self.parts for name in (part.inside, *part.after) if name], *self.beside.values()]


class Drawing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file: edges by name, and the lanes of a dense layer, of a mixture of experts, and of any layer."""

    edges: dict[str, Edge]
    dense: tuple[Lane, ...]
    moe: tuple[Lane, ...]
    any: tuple[Lane, ...]

    def __post_init__(self) -> None:
        for lane in (*self.dense, *self.moe, *self.any):
            if unknown := set(lane.edges()) - self.edges.keys():
                raise ValueError(f"layers.toml, lane {lane.title}: there are no edges {sorted(unknown)}")


@cache
def _read() -> Drawing:
    return msgspec.toml.decode((registry.DATA / "layers.toml").read_bytes(), type=Drawing)


def lanes(layer: Layer) -> list[Lane]:
    """The ways to split a layer: its own, then those that split every layer."""
    own = _read().dense if layer is Layer.DENSE else _read().moe
    last = _LAST[layer]
    every = (
        msgspec.structs.replace(lane, parts=(*lane.parts[:-1], msgspec.structs.replace(lane.parts[-1], block=last)))
        for lane in _read().any
    )
    return [*own, *every]


def edges(layer: Layer) -> dict[str, Edge]:
    """The collectives of a layer's lanes by name, each once, in the order of the drawing."""
    return {name: _read().edges[name] for lane in lanes(layer) for name in lane.edges()}


def other_blocks(problems: Sequence[Problem]) -> list[tuple[Block, int]]:
    """The blocks that are no part of a layer, with the number of problems of each."""
    drawn = {part.block for layer in Layer for lane in lanes(layer) for part in lane.parts}
    counted = [(block, sum(problem.block is block for problem in problems)) for block in Block if block not in drawn]
    return [(block, count) for block, count in counted if count]


FACETS_BESIDE = tuple(facet for facet in FACETS if facet.name not in ("block", "parallelism"))
"""The facets that narrow the matrix; the other two are its axes."""


class Quantity(StrEnum):
    """What a cell shows and is shaded by."""

    COUNT = "count"
    SPEEDUP = "speedup"
    SOLVED = "solved"


LABELS = {
    Quantity.COUNT: "Number of problems",
    Quantity.SPEEDUP: "Best speedup",
    Quantity.SOLVED: "Share solved",
}
_EDGES: dict[Quantity, tuple[float, ...]] = {
    Quantity.COUNT: (1, 2, 4, 7),
    Quantity.SPEEDUP: (0, 1, 1.5, 2),
    Quantity.SOLVED: (0.001, 0.34, 0.67, 1),
}
"""From which value on each shade holds."""
SHADE_LABELS = {
    Quantity.COUNT: ("1", "2 or 3", "4 to 6", "7 or more"),
    Quantity.SPEEDUP: ("below 1", "1 to 1.5", "1.5 to 2", "2 or more"),
    Quantity.SOLVED: ("up to a third", "up to two thirds", "more than two thirds", "all"),
}


@dataclass(frozen=True, kw_only=True)
class Cell:
    """The problems of one block and parallelism (or of a whole row or column) and what is known of them.

    `shade` goes from 0, nothing, to the last of `SHADE_LABELS`; the number in `text` says the same.
    """

    name: str
    count: int
    solved: int
    best: BoardRow | None
    text: str
    note: str
    shade: int
    query: str


Row = tuple[str, tuple[Cell, ...], Cell]
"""One block: its label, its cells by parallelism, and all of them together."""
Matrix = tuple[tuple[str, ...], tuple[tuple[str, tuple[Row, ...]], ...], Row]
"""The columns, rows under their group's heading, and the totals of the columns."""


_COLUMNS = ((NONE, "None"), *((value.value, value.label) for value in Parallelism))


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What a matrix is made of: problems left by the facets, the leaders of their boards, and what cells show.

    `leaders` holds the boards that count, by problem; `chosen` are the facets that links keep.
    """

    problems: Sequence[Problem]
    leaders: Mapping[str, Sequence[BoardRow]]
    quantity: Quantity
    chosen: Mapping[str, str]


def matrix(shown: Shown) -> Matrix:
    """Every block that occurs against every parallelism; a problem with several kinds stands in several cells."""
    groups = []
    for group in BlockGroup:
        blocks = [block for block in BLOCK_GROUPS[group] if any(item.block is block for item in shown.problems)]
        if blocks:
            groups.append((group.label, tuple(_row(shown, block) for block in blocks)))
    return tuple(label for _, label in _COLUMNS), tuple(groups), _row(shown, None)


def _row(shown: Shown, block: Block | None) -> Row:
    label = block.label if block else "All blocks"
    of_block = [problem for problem in shown.problems if block is None or problem.block is block]
    query = {"block": block.value} if block else {}
    cells = tuple(
        _cell(
            shown,
            [problem for problem in of_block if value in (problem.parallelism or (NONE,))],
            name=f"{label}, {column.lower()} parallel" if value != NONE else f"{label}, no parallelism",
            query={**query, "parallelism": value},
        )
        for value, column in _COLUMNS
    )
    return label, cells, _cell(shown, of_block, name=f"{label}, any parallelism", query=query)


def _cell(shown: Shown, problems: Sequence[Problem], *, name: str, query: Mapping[str, str]) -> Cell:
    leaders = [leader for problem in problems for leader in shown.leaders.get(problem.slug, ())]
    solved = sum(bool(shown.leaders.get(problem.slug)) for problem in problems)
    best = max(
        (leader for leader in leaders if leader.is_ranked_by_speed), key=lambda leader: leader.score, default=None
    )
    value, text, note = _content(shown.quantity, count=len(problems), solved=solved, best=best)
    kept = {key: chosen for key, chosen in shown.chosen.items() if chosen}
    return Cell(
        name=name,
        count=len(problems),
        solved=solved,
        best=best,
        text=text,
        note=note,
        shade=0 if value is None else sum(value >= edge for edge in _EDGES[shown.quantity]),
        query=urlencode({**query, **kept}),
    )


def _content(quantity: Quantity, *, count: int, solved: int, best: BoardRow | None) -> tuple[float | None, str, str]:
    """The value that shades a cell, its text, and the line below."""
    if not count:
        return None, "", ""
    if quantity is Quantity.COUNT:
        return count, str(count), f"{solved} solved"
    if quantity is Quantity.SOLVED:
        return solved / count, f"{100 * solved / count:.0f} %", f"{solved} of {count}"
    return (best.score, score_text(best.score), best.author) if best else (None, "no entry", f"of {count}")
