"""What a tree of solutions of the public benchmark says by its names: the folder's parts, and the problem of a file.

The folder is called `solutions_<backend>_<precision>_<gpu>_<ranks>_<vendor>_<model>`, in older trees without the ranks,
and holds files like `<number>_<name>_<backend>.py`. Only the name of a file decides. A number that stands alone would
be a guess: the benchmark was numbered anew when problems were taken out.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import PurePosixPath

from evaluator.contract import Backend
from evaluator.hardware import profiles
from problems import registry

_PREFIX = "solutions_"
_FILE = re.compile(r"(?P<number>\d{1,4})_(?P<name>.+)\.py")
_BACKENDS = {**{backend.value: backend for backend in Backend}, "torch": Backend.PYTORCH}
_COUNTED_GPUS = re.compile(r"(?:(?P<before>\d+)x)?(?P<gpu>[a-z]+\d+[a-z]*?)(?:x(?P<after>\d+))?")

_RENUMBERED_FROM = 34
"""In the benchmark's older numbering every problem from this number on is one higher than here."""

_RENAMED: Mapping[tuple[int, str], str] = {
    (11, "gemm_allgather_at"): "allgather_gemm_AT",
    (12, "gemm_allgather"): "allgather_gemm",
    (14, "gemm_allscatter"): "gemm_allgather",
    (18, "rms_norm"): "tp_rms_norm",
}
"""Files whose published name is not the problem's slug here. The number belongs to the name: `gemm_allgather` is the
slug of another problem."""


@dataclass(frozen=True, kw_only=True)
class TreeName:
    """What the name of a folder says; a part that it lacks is empty."""

    backend: str = ""
    precision: str = ""
    hardware: str = ""
    ranks: str = ""
    provider: str = ""
    model: str = ""

    @property
    def profiles(self) -> tuple[str, ...]:
        """Every profile that fits the hardware and the number of ranks; more than one where they leave it open."""
        plain = self.hardware.lower()
        if plain in profiles.profiles():
            return (plain,)
        match = _COUNTED_GPUS.fullmatch(plain)
        if match is None:
            return ()
        ranks = self.ranks or match["before"] or match["after"]
        return tuple(
            profile.name
            for profile in profiles.profiles().values()
            if profile.gpu is not None and profile.gpu.lower() == match["gpu"] and str(profile.world_size) == ranks
        )


@dataclass(frozen=True, kw_only=True)
class Matched:
    """A file and its problem; `by` is slug, name (a published one) or choice, `note` says what differed."""

    path: str
    problem: str
    by: str
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Unmatched:
    path: str
    reason: str


def tree_name(folder: str) -> TreeName | None:
    """What the folder's name says, or None where it is not called like a tree of solutions."""
    if not folder.startswith(_PREFIX):
        return None
    rest = folder.removeprefix(_PREFIX)
    # Backends may hold underscores themselves: the longest known one that fits is it.
    for word in sorted(_BACKENDS, key=len, reverse=True):
        if rest == word or rest.startswith(f"{word}_"):
            precision, hardware, *others = [*rest.removeprefix(word).lstrip("_").split("_"), "", ""]
            others = [part for part in others if part]
            ranks = others.pop(0) if others and others[0].isdecimal() else ""
            provider = others.pop(0) if others else ""
            return TreeName(
                backend=_BACKENDS[word].value,
                precision=precision,
                hardware=hardware,
                ranks=ranks,
                provider=provider,
                model="_".join(others),
            )
    return TreeName()


def match_file(path: str, chosen: Mapping[str, str]) -> Matched | Unmatched:
    """The problem of the file at `path`, or why there is none; `chosen` are the uploader's choices by file name."""
    file_name = PurePosixPath(path).name
    if file_name in chosen:
        return Matched(path=path, problem=chosen[file_name], by="choice")
    named = _FILE.fullmatch(file_name)
    if named is None:
        return Unmatched(path=path, reason="its name does not have the form <number>_<name>_<backend>.py")
    return _by_name(path, int(named["number"]), _without_backend(named["name"]))


def _by_name(path: str, number: int, name: str) -> Matched | Unmatched:
    numbers, slugs = _numbers(), {slug.lower(): slug for slug in _numbers()}
    renamed = _RENAMED.get((number, name.lower()))
    if renamed is not None:
        return Matched(path=path, problem=renamed, by="name", note=f"called {name} there")
    slug = slugs.get(name.lower())
    if slug is None:
        here = next((slug for slug, held in numbers.items() if held == number), None)
        hint = f"; number {number} is {here} here, which need not be the same" if here else ""
        return Unmatched(path=path, reason=f"no problem is called {name!r}{hint}")
    if number != numbers[slug] and any(name.lower() == other for _, other in _RENAMED):
        return Unmatched(path=path, reason=f"{name!r} names several problems, and none of them is number {number}")
    return Matched(path=path, problem=slug, by="slug", note=_renumbered(number, numbers[slug]))


def _renumbered(there: int, here: int) -> str:
    if there == here:
        return ""
    is_older = there >= _RENUMBERED_FROM and there == here + 1
    return f"numbered {there} there{', as in the older numbering' if is_older else ''}; {here} here"


@cache
def _numbers() -> dict[str, int]:
    return {problem.slug: problem.number for problem in registry.problems()}


def _without_backend(name: str) -> str:
    for word in sorted(_BACKENDS, key=len, reverse=True):
        if name.endswith(f"_{word}"):
            return name.removesuffix(f"_{word}")
    return name
