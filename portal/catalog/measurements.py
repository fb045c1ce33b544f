"""Measurements that ship with the problems: baselines and ceilings per profile, and the public references' times apart.

`problems/data/baselines/<profile>.json` is what `python -m evaluator baseline` writes. A file
`public_references_*.json` beside it holds times of somebody else's references on somebody else's inputs; it is never a
baseline. A file `published_against_ours_*.json` holds how fast those ran beside ours, on our inputs.
"""

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from evaluator.contract import Baseline, BaselineTable
from evaluator.hardware import profiles
from evaluator.hardware.ceilings import Ceilings, stored
from problems import registry

FOLDER = registry.DATA / "baselines"


@cache
def published_against_ours(*, folder: Path = FOLDER) -> dict[str, Any] | None:
    """The newest comparison of published references with ours; None where there is none.

    `ratios` has by slug our reference's time over theirs (`score`) with its interval; `score_rule` says how both were
    timed.
    """
    return _newest(folder.glob("published_against_ours_*.json"))


@cache
def baselines(profile: str, *, folder: Path = FOLDER) -> BaselineTable | None:
    """The measured baselines of `profile`; None where nobody has measured them yet."""
    path = folder / f"{profiles.get(profile).name}.json"
    return BaselineTable.from_json(path.read_bytes()) if path.is_file() else None


@cache
def public_references(profile: str, *, folder: Path = FOLDER) -> dict[str, Any] | None:
    """The newest times of public references taken on `profile`, with their circumstances; None where there are none.

    `median_us` has microseconds by slug on the public inputs, `ceilings` what the interconnect reached, in bytes per
    second one way per GPU.
    """
    return _newest(folder.glob("public_references_*.json"), profile=profile)


def _newest(files: Iterable[Path], **wanted: str) -> dict[str, Any] | None:
    tables = [msgspec.json.decode(path.read_bytes(), type=dict[str, Any]) for path in files]
    found = [table for table in tables if table.items() >= wanted.items()]
    return max(found, key=lambda table: table["measured_at"], default=None)


def baseline(slug: str, *, profile: str, size: str, folder: Path = FOLDER) -> Baseline | None:
    """The baseline of a problem's current revision; None where it was not measured or is of an older revision."""
    table = baselines(profile, folder=folder)
    found = table.baselines.get(slug, {}).get(size) if table else None
    return found if found is not None and found.revision == registry.revision(slug) else None


def public_reference_us(slug: str, *, profile: str, size: str, folder: Path = FOLDER) -> float | None:
    """The public reference's time of a problem at the size that it was measured at."""
    table = public_references(profile, folder=folder)
    return table["median_us"].get(slug) if table is not None and table["size"] == size else None


@cache
def ceilings(profile: str) -> Ceilings | None:
    """What the hardware of `profile` reached; None where nobody measured it. A process reads a file once."""
    return stored(profile)
