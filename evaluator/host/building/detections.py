"""Reads from built modules which hardware paths they use: in another process, for a build makes them as it likes."""

import itertools
import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from evaluator.contract import Detection
from evaluator.host.building import disassembly
from evaluator.host.building.build_job import BuildJob
from evaluator.host.process.logs import clean
from evaluator.judging import primitives

_READ = f"{__name__}:read"

LONGEST_S = 60.0
"""How long the modules of one build and their listings may take to read."""


def find(
    artefacts: Mapping[str, bytes],
    listings: Iterator[tuple[str, str]],
    *,
    job: BuildJob,
) -> tuple[Detection, ...]:
    """What symbols and machine code show, one detection per primitive and module.

    Args:
        artefacts: everything that was built, by path.
        listings: name and disassembly of modules.
        job: the build that they are of.

    Raises:
        Cancelled: nobody wants the build any more.
        LimitExceeded: reading took too long, or too much memory.
    """
    modules = [(path, content) for path, content in artefacts.items() if path.endswith(disassembly.MODULES)]
    if not modules:
        return ()
    with tempfile.TemporaryDirectory(prefix="reading-", dir=job.workdir) as name:
        folder = Path(name)
        parts = [
            *(
                _part(folder, number, Path(path).name, "symbols", content)
                for number, (path, content) in enumerate(modules)
            ),
            *(_part(folder, number, module, "code", text.encode()) for number, (module, text) in enumerate(listings)),
        ]
        found = job.read(_READ, json.dumps(parts), seconds=LONGEST_S)
        return msgspec.json.decode(found, type=tuple[Detection, ...])


def _part(folder: Path, number: int, module: str, kind: str, content: bytes) -> dict[str, str]:
    path = folder / f"{kind}-{number}"
    path.write_bytes(content)
    return {"module": module, "kind": kind, "path": str(path)}


def read(text: str) -> str:
    """In that process: the detections in the files that `text` lists, as JSON."""
    parts: list[dict[str, Any]] = json.loads(text)
    found = itertools.chain.from_iterable(_detections(Path(part["path"]), part) for part in parts)
    shown = (msgspec.structs.replace(each, detail=clean(each.detail)) for each in found)
    return msgspec.json.encode(tuple({(each.primitive, each.file): each for each in shown}.values())).decode()


def _detections(path: Path, part: Mapping[str, str]) -> tuple[Detection, ...]:
    if part["kind"] == "symbols":
        return primitives.in_symbols(path.read_bytes(), module=part["module"])
    return primitives.in_machine_code(path.read_text(encoding="utf-8"), module=part["module"])
