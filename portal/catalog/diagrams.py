"""A hop of a problem's communication as coordinates: four ranks and the arrows of the pattern between them."""

from dataclasses import dataclass

from problems.spec.schema import Hop
from problems.spec.taxonomy import Communication

RANKS = 4
_LEFT, _STEP = 36, 72
_TOP, _BOTTOM = 26, 126
_RADIUS = 15

_TO_ALL = [(source, target) for source in range(RANKS) for target in range(RANKS)]
_EDGES = {
    Communication.BROADCAST: [(0, target) for target in range(RANKS)],
    Communication.SCATTER: [(0, target) for target in range(RANKS)],
    Communication.REDUCE: [(source, 0) for source in range(RANKS)],
    Communication.GATHER: [(source, 0) for source in range(RANKS)],
    Communication.SEND_RECV: [(source, (source + 1) % RANKS) for source in range(RANKS)],
}


@dataclass(frozen=True)
class Edge:
    x1: float
    y1: float
    x2: float
    y2: float


@dataclass(frozen=True, kw_only=True)
class Diagram:
    """The drawing of one hop: `ranks` holds (number, x); senders stand at `top`, receivers at `bottom`."""

    hop: Hop
    ranks: tuple[tuple[int, int], ...]
    edges: tuple[Edge, ...]
    top: int = _TOP
    bottom: int = _BOTTOM


def _edge(source: int, target: int) -> Edge:
    x1, x2 = _LEFT + source * _STEP, _LEFT + target * _STEP
    length = ((x2 - x1) ** 2 + (_BOTTOM - _TOP) ** 2) ** 0.5
    dx, dy = (x2 - x1) / length, (_BOTTOM - _TOP) / length
    gap = _RADIUS + 5  # the arrow head needs room before the circle
    return Edge(
        x1=round(x1 + dx * _RADIUS, 1),
        y1=round(_TOP + dy * _RADIUS, 1),
        x2=round(x2 - dx * gap, 1),
        y2=round(_BOTTOM - dy * gap, 1),
    )


def diagram(hop: Hop) -> Diagram:
    """The drawing of `hop` for four ranks, senders above and receivers below."""
    edges = _EDGES.get(hop.pattern, _TO_ALL)
    return Diagram(
        hop=hop,
        ranks=tuple((rank, _LEFT + rank * _STEP) for rank in range(RANKS)),
        edges=tuple(_edge(source, target) for source, target in edges),
    )
