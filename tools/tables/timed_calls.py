# A table on standard output is what it is for.
"""Do timed calls stay as they were, though revisions change? Then baselines and entries may get the new revisions.

    python -m tools.tables.timed_calls note before.json [SLUG ...]       # at the old revision
    python -m tools.tables.timed_calls compare before.json [SLUG ...]    # at the new one
    python -m tools.tables.timed_calls stamp before.json [SLUG ...]      # once, before a release

`note` writes per problem its revision, and digests of what decides a time. These are the reference's text, costs and
dimensions, and the bytes of every rank's inputs in two calls on 2 and 4 ranks. At `tiny` they include the expected
outputs. `compare` lists the problems whose digests differ from the noted ones. They have to be measured again; it exits
1 if there is any. `stamp` also writes the new revision wherever the old one stands in the recorded measurements of all
others. Recorded passes did not meet regimes that are newer than the noted revision: it prints them, for the list in
problems/data/entries/README.md (decision 0061).
"""

import argparse
import hashlib
import json
import lzma
import sys
from pathlib import Path

import torch

from problems import registry
from problems.harness.implementation import load
from problems.inputs.values import Call
from problems.spec.judged_data import judged_data
from problems.spec.memory import held_bytes
from problems.spec.schema import Problem, SizeName

RECORDED = (
    "baselines/h100x2-nomc.json",
    "baselines/h200x2-nomc.json",
    "baselines/h200x4-nomc.json",
    "sweeps/h100x2-nomc.json",
    "sweeps/h100x4-nomc.json",
)
COMPRESSED = ("entries/*.reports.xz", "entries/runs/*.reports.xz")
WORLD_SIZES, CALLS = (2, 4), 2
MOST_DRAWN_BYTES = 5e8
"""Of sizes where a rank holds more, inputs are not drawn: generators do not ask which size it is."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=("note", "compare", "stamp"))
    parser.add_argument("file", type=Path)
    parser.add_argument("slugs", nargs="*", metavar="SLUG", help="default: every problem")
    options = parser.parse_args()
    slugs = options.slugs or [problem.slug for problem in registry.problems()]
    if options.action == "note":
        options.file.write_text(json.dumps({slug: noted(slug) for slug in slugs}, indent=1))
        return 0
    before = json.loads(options.file.read_text())
    now = {slug: noted(slug) for slug in slugs}
    changed = [slug for slug in slugs if not is_alike(before[slug], now[slug])]
    if options.action == "stamp":
        for slug in sorted(set(slugs) - set(changed)):
            paths = stamp(before[slug]["revision"], now[slug]["revision"])
            unmet = [name for name in now[slug]["regimes"] if name not in before[slug].get("regimes", ())]
            if unmet and any("entries" in path.parts for path in paths):
                print(f"{slug}: what is recorded in {[path.name for path in paths]} has not met {unmet}")
    print(f"timed calls are the same in {len(slugs) - len(changed)} problems of {len(slugs)}; changed: {changed}")
    return 1 if changed else 0


def noted(slug: str) -> dict[str, object]:
    """The revision of a problem, and digests of what decides its times."""
    problem = registry.get(slug)
    data = json.loads(judged_data(problem))
    fixed = {name: data["fields"][name] for name in ("arguments", "sizes", "slug") if name in data["fields"]}
    return {
        "revision": registry.revision(slug),
        "reference": hashlib.sha256(registry.reference_source(slug).encode()).hexdigest(),
        "regimes": [regime.name for regime in problem.regimes],
        "costs": hashlib.sha256(json.dumps([data["at"], fixed], sort_keys=True).encode()).hexdigest(),
        "values": {
            f"{size} on {world_size}": _values(problem, size, world_size)
            for world_size in WORLD_SIZES
            if problem.refuses_world_size(world_size) is None
            for size in (SizeName.TINY, SizeName.BASE)
            if held_bytes(problem, problem.dims(size, world_size)) <= MOST_DRAWN_BYTES
        },
    }


def is_alike(before: dict[str, object], now: dict[str, object]) -> bool:
    """Whether the timed calls of a problem are what they were."""
    return all(before[name] == now[name] for name in ("reference", "costs", "values"))


def stamp(old: str, new: str) -> list[Path]:
    """Write one revision in place of another in the recorded measurements; returns the files that had it."""
    stamped = []
    for name in RECORDED:
        path = registry.DATA / name
        text = path.read_text(encoding="utf-8")
        if old in text:
            path.write_text(text.replace(old, new), encoding="utf-8")
            stamped.append(path)
    for pattern in COMPRESSED:
        for path in registry.DATA.glob(pattern):
            text = lzma.decompress(path.read_bytes())
            if old.encode() in text:
                path.write_bytes(lzma.compress(text.replace(old.encode(), new.encode())))
                stamped.append(path)
    return stamped


def _values(problem: Problem, size: SizeName, world_size: int) -> str:
    implementation, digest = load(problem.slug), hashlib.sha256()
    for index in range(CALLS):
        for rank in range(world_size):
            call = Call(
                key=hashlib.sha256(problem.slug.encode()).digest(),
                index=index,
                rank=rank,
                world_size=world_size,
                dims=problem.dims(size, world_size),
                dtype=torch.bfloat16,
                device=torch.device("cpu"),
            )
            _add(digest, implementation.make_inputs(call))
            if size is SizeName.TINY:
                _add(digest, implementation.expected(call))
    return digest.hexdigest()


def _add(digest: "hashlib._Hash", value: object) -> None:
    """Type, shape and bytes of tensors, wherever they are; everything else as it is written."""
    if isinstance(value, torch.Tensor) and value.is_sparse:
        _add(digest, [value.indices(), value.values(), value.shape])
    elif isinstance(value, torch.Tensor):
        digest.update(f"{value.dtype}{tuple(value.shape)}{value.stride()}".encode())
        digest.update(value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    elif isinstance(value, dict):
        _add(digest, [item for pair in value.items() for item in pair])
    elif isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        for item in value:
            _add(digest, item)
    elif hasattr(value, "tensors"):
        _add(digest, value.tensors)
    else:
        digest.update(repr(value).encode())


if __name__ == "__main__":
    sys.exit(main())
