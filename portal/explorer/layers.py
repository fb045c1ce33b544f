"""A transformer's layer, split in every usual way, with the collective on each edge: `problems/data/layers.toml`."""

from collections.abc import Sequence
from enum import StrEnum
from functools import cache

import msgspec

from problems import registry
from problems.spec.schema import Problem
from problems.spec.taxonomy import Block, Communication, Parallelism


class Layer(StrEnum):
    """The example layers that readers choose from."""

    DENSE = "dense"
    MOE = "moe"


LABELS = {Layer.DENSE: "Dense", Layer.MOE: "Mixture of experts"}
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
        named = [name for part in self.parts for name in (part.inside, *part.after) if name]
        return [*named, *self.beside.values()]


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
