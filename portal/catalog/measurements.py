"""Measurements that ship with the problems: baselines and ceilings per profile, and the public references' times apart.

`problems/data/baselines/<profile>.json` is what `python -m evaluator baseline` writes. A file
`public_references_*.json` beside it holds times of somebody else's references on somebody else's inputs; it is never a
baseline. A file `published_against_ours_*.json` holds how fast those ran beside ours, on our inputs.
"""

import tomllib
from functools import cache
from pathlib import Path

from evaluator.contract import Baseline, BaselineTable, Message
from evaluator.hardware import profiles
from evaluator.hardware.ceilings import Ceilings, stored
from problems import registry

FOLDER = registry.DATA / "baselines"


class PublicReferences(Message, frozen=True, kw_only=True):
    """Times of the public references on their public inputs, in microseconds by slug, with their circumstances.

    `ceilings` is what the machine's interconnect reached, in bytes per second one way per GPU.
    """

    profile: str
    size: str
    measured_at: str
    environment: dict[str, str]
    caveat: str
    left_out: dict[str, str]
    ceilings: dict[str, float]
    median_us: dict[str, float]


class PublishedAgainstOurs(Message, frozen=True, kw_only=True):
    """The published references beside ours; `score_rule` says how they were timed.

    `ratios` has by slug our reference's time over theirs as `score`, with its interval `low` to `high`.
    """

    profile: str
    measured_at: str
    score_rule: int
    environment: dict[str, str]
    ratios: dict[str, dict[str, float]]


@cache
def published_against_ours(*, folder: Path = FOLDER) -> PublishedAgainstOurs | None:
    """The newest comparison of published references with ours; None where there is none."""
    files = folder.glob("published_against_ours_*.json")
    tables = [PublishedAgainstOurs.from_json(path.read_bytes()) for path in files]
    return max(tables, key=lambda table: table.measured_at, default=None)


@cache
def baselines(profile: str, *, folder: Path = FOLDER) -> BaselineTable | None:
    """The measured baselines of `profile`; None where nobody has measured them yet."""
    path = folder / f"{profiles.get(profile).name}.json"
    return BaselineTable.from_json(path.read_bytes()) if path.is_file() else None


@cache
def public_references(profile: str, *, folder: Path = FOLDER) -> PublicReferences | None:
    """The newest times of public references taken on `profile`; None where there are none."""
    tables = [PublicReferences.from_json(path.read_bytes()) for path in folder.glob("public_references_*.json")]
    found = [table for table in tables if table.profile == profile]
    return max(found, key=lambda table: table.measured_at, default=None)


def baseline(slug: str, *, profile: str, size: str, folder: Path = FOLDER) -> Baseline | None:
    """The baseline of a problem's current revision; None where it was not measured or is of an older revision."""
    table = baselines(profile, folder=folder)
    found = table.baselines.get(slug, {}).get(size) if table else None
    return found if found is not None and found.revision == registry.revision(slug) else None


def public_reference_us(slug: str, *, profile: str, size: str, folder: Path = FOLDER) -> float | None:
    """The public reference's time of a problem at the size that it was measured at."""
    table = public_references(profile, folder=folder)
    return table.median_us.get(slug) if table is not None and table.size == size else None


@cache
def rests_on() -> dict[str, dict[str, str]]:
    """What the factors of recorded entries rest on, by problem: a few `words` and a `sentence`."""
    return tomllib.loads((registry.DATA / "entries" / "rests_on.toml").read_text(encoding="utf-8"))


@cache
def ceilings(profile: str) -> Ceilings | None:
    """What the hardware of `profile` reached; None where nobody measured it. A process reads a file once."""
    return stored(profile)
