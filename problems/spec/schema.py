"""What a problem is, as frozen torch-free data: interface, sizes, tolerance and cost model.

A problem is one folder `problems/catalog/pNNN_slug/`:

spec.py
    `PROBLEM`, an instance of `Problem`. Imports only the standard library and
    `problems.{schema,taxonomy,world_sizes,regimes,ranges}`.
inputs.py
    `make_inputs(call) -> dict[str, value]`: the arguments of one rank for one call, in signature order.
reference.py
    `solution(...)`: the baseline that submissions are timed against; plain PyTorch and torch.distributed.
oracle.py `expected(call) -> tuple`: the expected output of rank `call.rank`, computed from all ranks' inputs in higher
    precision and without a collective. Optionally `compare(call, actual, expected)`, where comparing element by element
    will not do.
variants.py
    `HONEST` and `MUTANTS`: programs with the solution's signature that must pass, and that must fail. `NARROW`:
    by the name of a regime, programs that are correct except in that regime.
statement.md
    What the problem asks, for a reader who knows CUDA but not this workload.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import reduce
from itertools import combinations
from random import Random
from typing import Any

from problems.spec.ranges import Range
from problems.spec.taxonomy import Block, Communication, Domain, Parallelism, Stage
from problems.spec.world_sizes import any_world_size

Dims = Mapping[str, int]
"""Concrete values of a problem's dimension symbols at one size and world size."""


class UnknownRegime(LookupError):
    """A problem has no regime of this name; the message lists those that it has."""


class SizeName(StrEnum):
    """The three named sizes that every problem has."""

    TINY = "tiny"
    BASE = "base"
    LARGE = "large"


class ArgumentKind(StrEnum):
    """What sort of value a parameter of `solution` takes."""

    TENSOR = "tensor"
    TENSORS = "tensors"
    SPARSE = "sparse tensor"
    INTEGER = "integer"
    REAL = "real"
    BOOLEAN = "boolean"
    TEXT = "text"
    INTEGERS = "integers"
    GROUP = "process group"
    MODULE = "module"
    NONE = "none"


@dataclass(frozen=True, kw_only=True)
class Argument:
    """One parameter of `solution`.

    `shape` names dimension symbols (or integers); a name that is no dimension is a length that the data of a call
    decide. For `tensors` it is that of each of them and `count` says how many there are; for a `sparse tensor`
    (coalesced COO) it is that of the dense tensor. `dtype` is a torch dtype's name, or `input` for the run's dtype.
    `replicated` says that every rank receives the same values (new ones on every call). `mutable` says that a solution
    may write to it; then it is an output as well. `scratch` says that it may be overwritten and is not compared
    afterwards. `shape_elsewhere` is the shape on the ranks that are not the root of a rooted collective, where it
    differs there. `shared_within` names the process-group parameter whose ranks receive the same values, while other
    ranks receive others, or the integer parameter that says how many neighbouring ranks do.
    """

    name: str
    kind: ArgumentKind = ArgumentKind.TENSOR
    shape: tuple[str | int, ...] = ()
    count: str | int | None = None
    shape_elsewhere: tuple[str | int, ...] | None = None
    dtype: str = "input"
    values: str
    replicated: bool = False
    shared_within: str = ""
    mutable: bool = False
    scratch: bool = False


WORLD_GROUP = Argument(name="group", kind=ArgumentKind.NONE, dtype="process group", values="None: the world group")
"""The parameter `group` of problems that always receive None for it."""


class Placement(StrEnum):
    """How an output relates to the other ranks' outputs."""

    REPLICATED = "replicated"
    SHARDED = "sharded"
    PER_RANK = "per-rank"


class Scope(StrEnum):
    """Over which elements the root mean square that scales a tolerance is taken.

    A row runs along the last dimension, a field along the last two.
    """

    TENSOR = "tensor"
    ROW = "row"
    FIELD = "field"


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """When an output element is right: |x - ref| <= atol * rms(ref) + rtol * |ref|  (JUDGE numerics policy).

    Attributes:
        atol: absolute part as a multiple of the reference's root mean square over `scope`.
        rtol: relative part.
        rms: largest allowed root mean square of the error, as a multiple of the reference's; sees narrow wire
            formats and dropped shares that a maximum hides. None where only the maximum counts.
        calibration: how the numbers were found (honest noise, cheapest cheat, date, hardware).
    """

    atol: float
    rtol: float
    rms: float | None = None
    scope: Scope = Scope.TENSOR
    calibration: str

    def __post_init__(self) -> None:
        if self.atol < 0 or self.rtol < 0 or (self.rms is not None and self.rms < 0):
            raise ValueError(f"a tolerance cannot be negative: atol={self.atol}, rtol={self.rtol}, rms={self.rms}")

    @property
    def is_exact(self) -> bool:
        """Whether only bit-equal values pass (integers, booleans, pure copies)."""
        return self.atol == 0 and self.rtol == 0


EXACT = Tolerance(atol=0.0, rtol=0.0, calibration="bit-exact: integers, booleans or a pure copy")


@dataclass(frozen=True, kw_only=True)
class Output:
    """One tensor that `solution` returns, or writes when `argument` names a mutable parameter.

    Where that parameter is a list of tensors, `element` is the tensor's index in it. With `on_host` the tensor lies on
    the CPU whatever the run's device, and has to be complete when `solution` returns. A torch.Size and a list of ints
    count as such a tensor of int64.

    With `is_list` the output is a list (or tuple) of tensors of one shape and dtype, and `shape` begins with their
    number; it is compared as one tensor, their stack. Where `argument` names a list, its entries after the call count:
    a solution may write to them or replace them.

    The order of a problem's outputs is the order in the returned tuple; a single returned output is returned bare.
    `sharding` says in words how a sharded output is laid out. `layout` is "any" where strides are free and
    "contiguous" where the card demands it. `shape_elsewhere` is the shape on the ranks that are not the root of a
    rooted collective, where it differs there; it must not be the larger one.
    """

    name: str
    shape: tuple[str | int, ...]
    shape_elsewhere: tuple[str | int, ...] | None = None
    dtype: str = "input"
    placement: Placement
    tolerance: Tolerance
    sharding: str = ""
    argument: str | None = None
    element: int | None = None
    is_list: bool = False
    on_host: bool = False
    layout: str = "any"

    def written_in(self, arguments: Mapping[str, Any]) -> Any:
        """The argument (or element of one) that holds this output; None where it is returned."""
        if self.argument is None:
            return None
        value = arguments[self.argument]
        return value if self.element is None else value[self.element]


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one call costs each rank at the least, and what the reference really sends.

    Attributes:
        flops: operations per rank by arithmetic (`matmul`: tensor-core work in the run's dtype, `fp32`: vector work
            in float32, `fp64`), multiply-add counted as two.
        memory_bytes: device-memory bytes that must be read and written per rank, each once.
        wire_bytes: least bytes that the busiest rank must send or receive one way over the interconnect,
            whichever direction is larger.
        reference_wire_bytes: bytes that the reference's collectives send per rank one way (ring algorithms).
        note: where `wire_bytes` is below the reference's, why.
    """

    flops: Mapping[str, float]
    memory_bytes: float
    wire_bytes: float
    reference_wire_bytes: float
    note: str = ""

    def __post_init__(self) -> None:
        numbers = (*self.flops.values(), self.memory_bytes, self.wire_bytes, self.reference_wire_bytes)
        if any(number < 0 for number in numbers):
            raise ValueError(f"a cost cannot be negative: {self}")
        if self.wire_bytes > self.reference_wire_bytes:
            raise ValueError("the least bytes on the wire cannot exceed what the reference sends")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What a counter on the reference may show, as a multiple of what the cost model says.

    Without a reason the two agree within half a per cent. Wherever they may not, `reason` says why: the reference does
    more than is needed, or how much it does depends on the data.
    """

    least: float = 0.995
    most: float = 1.005
    reason: str = ""

    def __post_init__(self) -> None:
        agrees = (self.least, self.most) == (0.995, 1.005)
        if not 0 <= self.least <= self.most or agrees != (not self.reason):
            raise ValueError(f"a reading from {self.least} to {self.most} needs an order and a reason: {self.reason!r}")

    def admits(self, multiple: float) -> bool:
        """Whether a counter may show this multiple of the model."""
        return self.least <= multiple <= self.most


def fixed(**dims: int) -> Callable[[int], Dims]:
    """Dimensions that do not depend on the world size: `Size(dims=fixed(M=64, N=96), ...)`."""
    return lambda _world_size: dims


@dataclass(frozen=True, kw_only=True)
class Size:
    """A named set of dimensions.

    `dims` gives every symbol at a world size. `system` names the real workload that `large` is taken from, with
    the figures used; for `tiny` and `base` it says what they are for. On fewer than `least_world_size` ranks the size
    is not judged, because a rank would have to hold more than a GPU has room for.
    """

    dims: Callable[[int], Dims]
    system: str
    least_world_size: int = 2


def _symbol_is_value(axis: "Axis", dims: Dims, value: int, world_size: int) -> Dims:
    del world_size
    return {**dims, axis.symbol: value}


@dataclass(frozen=True, kw_only=True)
class Axis:
    """What a sweep varies: reference and submission are timed at each of its points. It decides no judgement.

    A point is named as in `base:M=512`: all other dimensions are those of `base`. Profiles that judge `tiny` alone have
    the points around `tiny`, others those around `base`.

    Attributes:
        name: what readers call it, such as "message size".
        symbol: what names of points call it; without `dims` the dimension that is replaced.
        unit: of the values, such as "bytes" or "rows".
        values: by the size around which they lie, 4 to 9 values, the smallest first.
        fixed: what stays as it is, as a clause.
        dims: the dimensions of a point, from this axis, those of the size, the value and the world size.
    """

    name: str
    symbol: str
    unit: str
    values: Mapping[SizeName, tuple[int, ...]]
    fixed: str
    dims: "Callable[[Axis, Dims, int, int], Dims]" = _symbol_is_value

    def __post_init__(self) -> None:
        for size, values in self.values.items():
            if not 4 <= len(values) <= 9 or list(values) != sorted(set(values)) or values[0] < 1:
                raise ValueError(f"axis {self.symbol} at {size} needs 4 to 9 ascending values, has {values}")

    def points(self, sizes: Iterable[str]) -> tuple["Point", ...]:
        """The points around those of `sizes` for which it has values."""
        known = [size for size in self.values if size in set(sizes)]
        return tuple(Point(axis=self, size=size, value=value) for size in known for value in self.values[size])


@dataclass(frozen=True)
class Point:
    """One value on an axis, with the other dimensions of a size."""

    axis: Axis
    size: SizeName
    value: int

    @property
    def name(self) -> str:
        """By which it is asked for, as a size is."""
        return f"{self.size.value}:{self.axis.symbol}={self.value}"


class UnknownSize(LookupError):
    """A problem has no such size and no such point; the message lists those that it has."""


@dataclass(frozen=True, kw_only=True)
class Hop:
    """One arrow of the statement's communication diagram: who sends what to whom."""

    source: str
    target: str
    payload: str
    pattern: Communication


ALL_OTHERS = "*"


@dataclass(frozen=True, kw_only=True)
class Regime:
    """A region of the space of legal calls: what it sets differs from timed calls, everything else is as usual.

    What all regimes of a problem set, by name, are the factors of its space; what they set them to are the levels.
    Regimes that set different factors can be met in one call (`Problem.joined`).

    Attributes:
        name: by which it is asked for, as in `--regime NAME`.
        words: what holds in its calls, as a clause that an author reads in a verdict: "one rank holds no rows".
        settings: what `inputs.py` asks the call for by name (`Call.setting`). A range is drawn for every call.
        dims: dimensions that are other ones than those of the size, or ranges of them.
        tolerances: by output, what holds in place of the output's own tolerance.
        at_large: False where a rank may then hold so much more that there is no room for it at `large`.
        least_world_size: on fewer ranks there is no such call.
        dtypes: the run's dtypes that can hold its values; () for all.
        narrow: which of the generic programs is correct except in this regime; "" where `variants.py` has one.
        hides: whether results no longer tell what other settings do: then it meets one other regime at a time.
        apart: regimes that it cannot be joined with, because no call is in both, or none whose result is certain.
            `ALL_OTHERS` stands for every one, where a call takes long.
        parts: the regimes that were joined to this one; () for one of the problem's own.
        derive: gives all dimensions where some follow from those that the regime sets, on a number of ranks.
    """

    name: str
    words: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    dims: Mapping[str, int | Range] = field(default_factory=dict)
    tolerances: Mapping[str, Tolerance] = field(default_factory=dict)
    at_large: bool = True
    least_world_size: int = 2
    dtypes: tuple[str, ...] = ()
    narrow: str = ""
    hides: bool = False
    apart: tuple[str, ...] = ()
    parts: tuple["Regime", ...] = ()
    derive: Callable[[Dims, int], Dims] | None = None

    @property
    def factors(self) -> Mapping[str, Any]:
        """What it sets, by factor: settings and dimensions."""
        return {**self.settings, **self.dims}

    @property
    def ranges(self) -> Mapping[str, Range]:
        """The factors whose levels are drawn for every call."""
        return {name: level for name, level in self.factors.items() if isinstance(level, Range)}

    @property
    def described(self) -> str:
        """Its words, with the ranges of its numbers."""
        ranges = "; ".join(f"{name} {level}" for name, level in self.ranges.items())
        return f"{self.words} ({ranges})" if ranges else self.words

    def set_dims(self) -> Dims:
        """Its dimensions; raises ValueError where one is still a range."""
        if ranges := [name for name, level in self.dims.items() if not isinstance(level, int)]:
            raise ValueError(f"regime {self.name} has to be drawn before {ranges} are known")
        return {name: level for name, level in self.dims.items() if isinstance(level, int)}

    def dims_in(self, dims: Dims, world_size: int) -> Dims:
        """The dimensions of its calls, where those of other calls are `dims`; raises ValueError as `set_dims`."""
        dims = {**dims, **self.set_dims()}
        for part in self.parts or (self,):
            dims = part.derive(dims, world_size) if part.derive is not None else dims
        return dims

    def fits(self, other: "Regime") -> bool:
        """Whether one call can be in both: no factor has two levels, and neither says all that the other says."""
        mine, theirs = self.factors, other.factors
        shared = mine.keys() & theirs.keys()
        agree = all(mine[name] == theirs[name] for name in shared) and not shared & self.ranges.keys()
        is_apart = not {other.name, ALL_OTHERS}.isdisjoint(self.apart)
        is_apart |= not {self.name, ALL_OTHERS}.isdisjoint(other.apart)
        dtypes = not self.dtypes or not other.dtypes or set(self.dtypes) & set(other.dtypes)
        return bool(agree and dtypes and not is_apart and mine.keys() - theirs and theirs.keys() - mine)

    def drawn(self, random: Random) -> "Regime":
        """This regime with a number in place of each range; its name and words then say which."""
        if self.parts:
            return reduce(Regime.joined, (part.drawn(random) for part in self.parts))
        return self.at({name: level.draw(random) for name, level in self.ranges.items()}) if self.ranges else self

    def largest(self) -> "Regime":
        """This regime with the upper bound of each range."""
        if self.parts:
            return reduce(Regime.joined, (part.largest() for part in self.parts))
        return self.at({name: level.high for name, level in self.ranges.items()}) if self.ranges else self

    def at(self, numbers: Mapping[str, float | str]) -> "Regime":
        """This regime where its ranges are `numbers`."""
        written = ",".join(f"{name}={number}" for name, number in numbers.items())
        return replace(
            self,
            name=f"{self.name}:{written}",
            words=f"{self.words} ({written.replace('=', ' = ').replace(',', ', ')})",
            settings={name: numbers.get(name, level) for name, level in self.settings.items()},
            dims={name: int(numbers[name]) if name in numbers else level for name, level in self.dims.items()},
        )

    def joined(self, other: "Regime") -> "Regime":
        """What holds where a call is in both; of two tolerances for an output the wider one."""
        shared = self.tolerances.keys() & other.tolerances.keys()
        wider = {name: _wider(self.tolerances[name], other.tolerances[name]) for name in shared}
        both = set(self.dtypes) & set(other.dtypes) if self.dtypes and other.dtypes else {*self.dtypes, *other.dtypes}
        return replace(
            self,
            name=f"{self.name}+{other.name}",
            words=f"{self.words}; and {other.words}",
            settings={**self.settings, **other.settings},
            dims={**self.dims, **other.dims},
            tolerances={**self.tolerances, **other.tolerances, **wider},
            at_large=self.at_large and other.at_large,
            least_world_size=max(self.least_world_size, other.least_world_size),
            dtypes=tuple(sorted(both)),
            narrow="",
            parts=(*(self.parts or (self,)), other),
            derive=None,
        )


def _wider(left: Tolerance, right: Tolerance) -> Tolerance:
    """The larger of each allowance."""
    rms = None if left.rms is None or right.rms is None else max(left.rms, right.rms)
    return replace(left, atol=max(left.atol, right.atol), rtol=max(left.rtol, right.rtol), rms=rms)


JOINED_ALLOWANCE = 2
"""How many times as far an element may err in a call that is in several regimes. Limits are calibrated in one regime at
a time. Joined calls show wrong conditions and indices, whose errors are larger; bits are counted by the rms."""

_JOINED = re.compile(r"\+(?=[a-z])")
"""Between the names of joined regimes; the plus sign of an exponent is followed by a digit."""


def parts_of(name: str) -> tuple[str, ...]:
    """The names of the regimes that were joined to the one called `name`, without their numbers."""
    return tuple(part.partition(":")[0] for part in _JOINED.split(name) if part)


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One task: everything the site shows and the judge decides by, without importing torch."""

    number: int
    slug: str
    title: str
    summary: str
    origin: str | None
    parallelism: tuple[Parallelism, ...]
    communication: tuple[Communication, ...]
    block: Block
    stage: tuple[Stage, ...]
    domain: Domain
    signature: str
    arguments: tuple[Argument, ...]
    outputs: tuple[Output, ...]
    sizes: Mapping[SizeName, Size]
    cost: Callable[[Dims, int, int], Cost]
    refuses_world_size: Callable[[int], str | None] = any_world_size
    world_size_rule: str = "any"
    groups: str = "the world group"
    hops: tuple[Hop, ...] = ()
    mutants_not_applicable: Mapping[str, str] = field(default_factory=dict)
    lengths_vary: bool = False
    """Whether some calls have outputs of other lengths than their symbols give, which only the oracle then knows."""
    nothing_at: tuple[int, ...] = ()
    """Indices of the returned tuple where the card has None; they carry no output."""
    notes: tuple[str, ...] = ()
    regimes: tuple[Regime, ...] = ()
    """How calls that are checked and not timed differ from the timed ones, beside calls like these."""
    invariants: tuple[str, ...] = ()
    """What never varies though the signature would allow it, as sentences: a solution may rest on it."""
    fewer_bits: str = ""
    """Why a wire of 10 bits an element may pass, as a sentence; "" where it must be refused."""
    dtypes: tuple[str, ...] = ("bfloat16",)
    """The dtypes of `input` that a check can be asked for; ranked evaluations are in the first."""
    counted_flops: Reading = Reading()
    """Operations in matrix products, convolutions and attention, the mean over ranks, against the cost's FLOPs."""
    counted_wire: Reading = Reading()
    """Bytes that collectives carry at the busiest rank one way, against the cost's reference bytes."""
    axes: tuple[Axis, ...] = ()
    """Along which a sweep can measure time over size: one, or none."""

    def __post_init__(self) -> None:
        missing = [name.value for name in SizeName if name not in self.sizes]
        if missing:
            raise ValueError(f"problem {self.slug} lacks the sizes {missing}")
        if not self.outputs:
            raise ValueError(f"problem {self.slug} has no output")
        mutable = {argument.name for argument in self.arguments if argument.mutable}
        written = {output.argument for output in self.outputs if output.argument is not None}
        if written != mutable:
            raise ValueError(f"problem {self.slug}: mutable arguments {mutable} and written outputs {written} differ")
        returned = [output for output in self.outputs if output.argument is None]
        if len(returned) == 1 and returned[0].is_list:
            raise ValueError(f"problem {self.slug}: a list cannot be the only returned output, it would look like many")
        names = [regime.name for regime in self.regimes]
        if len(set(names)) != len(names):
            raise ValueError(f"problem {self.slug}: two regimes have one name among {names}")
        if len(self.axes) > 1:
            symbols = ", ".join(axis.symbol for axis in self.axes)
            raise ValueError(f"problem {self.slug} has axes {symbols}: a sweep goes along one, so declare one")

    def regime(self, name: str) -> Regime:
        """The regime called `name`: one of the problem's, with numbers or without, or several as in `one+other:n=3`.

        Raises:
            UnknownRegime: there is no such regime, number or call.
        """
        parts = [self._regime(part) for part in _JOINED.split(name)]
        for one, other in combinations(parts, 2):
            if not one.fits(other):
                raise UnknownRegime(f"problem {self.slug} has no call in {one.name} and {other.name} at once")
        return reduce(Regime.joined, parts)

    def _regime(self, name: str) -> Regime:
        plain, _, written = name.partition(":")
        for regime in self.regimes:
            if regime.name == plain:
                return regime.at(self._numbers(regime, written)) if written else regime
        known = ", ".join(regime.name for regime in self.regimes) or "none"
        raise UnknownRegime(f"problem {self.slug} has no regime called {name!r}; it has: {known}")

    def _numbers(self, regime: Regime, written: str) -> dict[str, float | str]:
        numbers: dict[str, float | str] = {}
        for each in written.split(","):
            name, _, text = each.partition("=")
            level = regime.ranges.get(name)
            if level is None:
                raise UnknownRegime(f"regime {regime.name} of problem {self.slug} has no number {name!r}")
            try:
                numbers[name] = level.read(text)
            except ValueError:
                message = f"in regime {regime.name} of problem {self.slug} {name} is {level}, not {text!r}"
                raise UnknownRegime(message) from None
        if missing := [name for name in regime.ranges if name not in numbers]:
            message = f"regime {regime.name} of problem {self.slug} is given with all of its numbers or none"
            raise UnknownRegime(f"{message}: {written!r} lacks {', '.join(missing)}; write {regime.name} alone")
        return numbers

    def regimes_at(self, size: str, world_size: int, dtype: str = "bfloat16") -> tuple[Regime, ...]:
        """The regimes that calls at `size` on `world_size` ranks can have in a run's `dtype`; none at a point."""
        return tuple(
            regime
            for regime in (self.regimes if size in set(SizeName) else ())
            if world_size >= regime.least_world_size
            and (regime.at_large or size != SizeName.LARGE)
            and (not regime.dtypes or dtype in regime.dtypes)
        )

    def outputs_in(self, regime: Regime | None) -> tuple[Output, ...]:
        """The outputs with the tolerances of `regime`; elements may err `JOINED_ALLOWANCE` times as far in several."""
        if regime is None or not (regime.tolerances or regime.parts):
            return self.outputs
        times = JOINED_ALLOWANCE if regime.parts else 1
        found = [regime.tolerances.get(output.name, output.tolerance) for output in self.outputs]
        return tuple(
            replace(output, tolerance=replace(one, atol=times * one.atol, rtol=times * one.rtol))
            for output, one in zip(self.outputs, found, strict=True)
        )

    @property
    def list_indices(self) -> tuple[int, ...]:
        """The indices of those outputs that are lists of tensors."""
        return tuple(place for place, output in enumerate(self.outputs) if output.is_list)

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """The parameters of `solution`, in order."""
        return tuple(argument.name for argument in self.arguments)

    def refuses(self, world_size: int, sizes: Iterable[str]) -> str | None:
        """Why the problem is not judged on `world_size` ranks at all of `sizes`; None where it is."""
        refusal = self.refuses_world_size(world_size)
        for name in sizes:
            least = self.sizes[SizeName(name.partition(":")[0])].least_world_size
            if refusal is None and world_size < least:
                refusal = f"needs at least {least} ranks at size {name}, got {world_size}"
        return refusal

    def points(self, sizes: Iterable[str]) -> tuple[Point, ...]:
        """The points of the axis around `sizes`: what a sweep measures unless it is told; () without an axis."""
        return self.axes[0].points(sizes) if self.axes else ()

    def point(self, name: str) -> Point:
        """The point called `name`.

        Raises:
            UnknownSize: there is none; the message lists them.
        """
        points = [point for axis in self.axes for point in axis.points(SizeName)]
        for point in points:
            if point.name == name:
                return point
        known = ", ".join(point.name for point in points) or "no axis for a sweep"
        raise UnknownSize(f"problem {self.slug} has no point called {name!r}; it has: {known}")

    def dims(self, size: str, world_size: int, regime: Regime | None = None) -> Dims:
        """The dimension symbols at a size or a point on `world_size` ranks, in calls of `regime`.

        Raises:
            ValueError: the problem does not run at that world size.
            UnknownSize: there is no such size or point.
        """
        refusal = self.refuses_world_size(world_size)
        if refusal is not None:
            raise ValueError(f"problem {self.slug} {refusal}")
        if size in set(SizeName):
            dims = self.sizes[SizeName(size)].dims(world_size)
        else:
            point = self.point(size)
            dims = point.axis.dims(point.axis, self.sizes[point.size].dims(world_size), point.value, world_size)
        return dims if regime is None else regime.dims_in(dims, world_size)
