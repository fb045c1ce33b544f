"""What a problem's spec decides of a judgement, as text that two specs share exactly where they judge alike.

It holds what the spec comes to, not how it is written: fields, and what its functions give at every world size that is
distinguished. Prose for readers, the taxonomy and what only tests look at are left out.
"""

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass

from problems.spec.schema import Argument, Cost, Output, Problem, Regime, Size, SizeName, Tolerance

WORLD_SIZES = range(2, 65)
ELEMENT_BYTES = (2, 4)

_PROSE_AND_TAXONOMY = frozenset(
    {"title", "summary", "origin", "parallelism", "communication", "block", "stage", "domain", "world_size_rule"}
    | {"groups", "hops", "notes", "invariants", "fewer_bits", "axes"}
)
_FOR_TESTS = frozenset({"mutants_not_applicable", "counted_flops", "counted_wire"})
_FUNCTIONS = frozenset({"refuses_world_size", "cost"})
_LEFT_OUT: Mapping[type, frozenset[str]] = {
    Problem: _PROSE_AND_TAXONOMY | _FOR_TESTS | _FUNCTIONS,
    Argument: frozenset({"values"}),
    Output: frozenset({"sharding"}),
    Tolerance: frozenset({"calibration"}),
    Size: frozenset({"system", "dims"}),
    Cost: frozenset({"note"}),
    Regime: frozenset({"words", "narrow", "derive"}),
}
"""By class, the fields that decide nothing, and the functions whose results stand in their place."""


def judged_data(problem: Problem) -> str:
    """The fields that decide a judgement, with dimensions and costs at all sizes and world sizes, as JSON."""
    accepted = [world_size for world_size in WORLD_SIZES if problem.refuses_world_size(world_size) is None]
    at = [(size, ranks) for size in SizeName for ranks in accepted]
    data = {"fields": _plain(problem), "at": {f"{size} on {ranks}": _at(problem, size, ranks) for size, ranks in at}}
    if regimes := [regime.largest() for regime in problem.regimes if regime.derive is not None]:
        data["derived"] = {
            f"{size} on {ranks}": _plain([problem.dims(size, ranks, regime) for regime in regimes])
            for size, ranks in at
        }
    return json.dumps(data, sort_keys=True)


def _at(problem: Problem, size: SizeName, world_size: int) -> object:
    dims = problem.dims(size, world_size)
    return _plain([dims, *(problem.cost(dims, world_size, element_bytes) for element_bytes in ELEMENT_BYTES)])


def _plain(value: object) -> object:
    """`value` in what JSON knows; numbers that are not whole lose the digits in which machines' libraries differ."""
    if is_dataclass(value):
        names = (field.name for field in fields(value))
        return {name: _plain(getattr(value, name)) for name in names if name not in _LEFT_OUT.get(type(value), ())}
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    return f"{value:.12g}" if isinstance(value, float) else value
