"""The machine code of a submission's kernels beside its source, as pages and the API have it."""

from collections.abc import Mapping, Sequence
from typing import Any

from evaluator.contract import ContractError, EvaluationReport, Instruction, KernelCode, Mode, SourceBundle
from evaluator.judging import recorded_work
from evaluator.judging.call_advice import short
from portal.catalog.highlighting import listings, visible

PER_PAGE = 1500
"""Instructions on one page."""
MOST_LISTED_CHARACTERS = 32 * 1024**2
"""Of all kernels together, for programs; a judge lists at most 24 MiB. Kernels beyond are named alone."""

_SHOWN_OF_A_KERNEL = ("name", "symbol", "module", "registers", "stack_bytes", "shared_bytes", "count")
NOTHING_COMPILED = "UNAVAILABLE: nothing was compiled ahead of the ranks"
COUNTERS = (
    "UNAVAILABLE: Nsight Compute runs a kernel several times to read its counters, and a kernel that waits for a peer "
    "then hangs"
)


def kernel_views(report: EvaluationReport, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The kernels of a report, each with the launch that took longest of the recorded call, which `rows` are of."""
    kernels = report.machine_code.kernels if report.machine_code is not None else ()
    return [
        {
            "number": number,
            "short": short(kernel.name),
            "code": kernel,
            "ran": next((row for row in rows if recorded_work.has_run(kernel, [row["name"]])), None),
        }
        for number, kernel in enumerate(kernels)
    ]


def unavailable(report: EvaluationReport) -> dict[str, str]:
    """What a profile cannot show, by name; empty in other modes."""
    if report.mode is not Mode.PROFILE:
        return {}
    code = report.machine_code
    why = NOTHING_COMPILED if code is None else f"UNAVAILABLE: {code.note or 'the build has no kernel'}"
    missing = {} if code is not None and code.kernels else {"Machine code": why}
    return {**missing, "Counters of Nsight Compute": COUNTERS}


def instructions(kernel: KernelCode) -> tuple[Instruction, ...]:
    """A kernel's instructions; none where a node sent something else."""
    try:
        return kernel.instructions()
    except ContractError:
        return ()


def passages(
    entries: Sequence[Instruction], *, files: Sequence[str], source: SourceBundle, start: int = 0
) -> list[dict[str, Any]]:
    """The instructions from `start` on, as many as a page takes, each run of one line beside that line.

    `path` is "" and `html` None where no line is known. `is_own` is whether it is the author's, and on their page.
    """
    lines = {path: dict(listing.lines) for path, listing in listings(source).items()}
    groups: list[tuple[tuple[int, int], list[str]]] = []
    for entry in entries[start : start + PER_PAGE]:
        at = (entry.file, entry.line)
        # A label belongs to what follows, but must not end a run of its line.
        if groups and (groups[-1][0] == at or entry.text.endswith(":")):
            groups[-1][1].append(entry.text)
        else:
            groups.append((at, [entry.text]))
    found = []
    for (file, line), texts in groups:
        path = files[file] if 0 <= file < len(files) else ""
        html, text = lines.get(path, {}).get(line), visible("\n".join(texts))
        found.append({"path": path, "line": line, "html": html, "is_own": html is not None, "text": text})
    return found


def data(report: EvaluationReport) -> dict[str, Any]:
    """All kernels as the API has them; `instructions` are [text, file or -1, line or 0]."""
    code = report.machine_code
    if code is None:
        return {"files": [], "kernels": [], "dropped": 0, "note": "nothing was compiled ahead of the ranks"}
    listed, room = [], MOST_LISTED_CHARACTERS
    for kernel in code.kernels:
        # A few KB unpack to megabytes, and a node may send many of them.
        listed.append(instructions(kernel) if room > 0 else ())
        room -= sum(len(entry.text) for entry in listed[-1])
    return {
        "files": list(code.files),
        "kernels": [
            {name: getattr(kernel, name) for name in _SHOWN_OF_A_KERNEL}
            | {"instructions": [[entry.text, entry.file, entry.line] for entry in entries]}
            for kernel, entries in zip(code.kernels, listed, strict=True)
        ],
        "dropped": code.dropped,
        "note": code.note,
    }
