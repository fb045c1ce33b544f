"""What a person reads on a submission's page, as plain text: for the terminal, and for a model that revises."""

from collections.abc import Iterator, Sequence

from .outcomes import has_ended, is_right, speedup
from .results import Evaluation, Finding, OutputCheck, RankState, Report, SizeTiming, Splits, SweepPoint

MOST_CHARACTERS = 12_000
"""A compiler's output can be longer than a model can use; the middle of a longer text is left out."""


def diagnosis(evaluation: Evaluation, *, most_characters: int = MOST_CHARACTERS) -> str:
    """The verdict, what it means, what to try next, every finding, and where every rank was."""
    return shortened("\n".join(_lines(evaluation)), most_characters)


def _lines(evaluation: Evaluation) -> Iterator[str]:
    yield headline(evaluation)
    if evaluation.message:
        yield capitalised(evaluation.message)
    facts, report = evaluation.facts, evaluation.report
    if facts:
        if facts.explanation != evaluation.message:
            yield facts.explanation
        yield f"Next: {facts.advice}"
    if report is not None:
        yield from _inside_report(report)
    yield from _points(evaluation.points, profile=evaluation.profile)
    if evaluation.split:
        yield from _inside(evaluation.split)
    if report and report.build and not report.build.succeeded:
        yield f"\nCompiler output:\n{report.build.log}"


def diagnosis_of_report(report: Report, *, most_characters: int = MOST_CHARACTERS) -> str:
    """The same of a report that no site has, such as that of a judge on this machine."""
    timing = report.timing
    score = f", {speedup(timing.score, timing.low, timing.high, profile=report.profile)}" if timing else ""
    lines = [f"{report.verdict}{score}", capitalised(report.message), *_inside_report(report)]
    if report.build and not report.build.succeeded:
        lines.append(f"\nCompiler output:\n{report.build.log}")
    lines += _points(report.points, profile=report.profile)
    return shortened("\n".join(lines), most_characters)


def _inside_report(report: Report) -> Iterator[str]:
    if len(report.findings) > 1 or (report.findings and report.verdict != "PASSED"):
        yield "\nFindings:"
        yield from (f"- {finding.verdict}, {_where(finding)}: {finding.message}" for finding in report.findings)
    if report.verdict != "PASSED":
        yield from _checks(report)
        yield from _ranks(report)
    else:
        yield from _times(report)
    yield from (f"Note: {note}" for note in report.notes)


def headline(evaluation: Evaluation) -> str:
    """Verdict and score in one line."""
    if not has_ended(evaluation):
        return _whereabouts(evaluation)
    if evaluation.verdict is None:
        return "NOT JUDGED: no node" if evaluation.state == "unserved" else "CANCELLED"
    title = f" ({evaluation.facts.title})" if evaluation.facts else ""
    score = ""
    if evaluation.score is not None:
        ends = (evaluation.score_low, evaluation.score_high)
        score = f": {speedup(evaluation.score, *ends, profile=evaluation.profile)}"
    return f"{evaluation.verdict}{title}{score}"


def _whereabouts(evaluation: Evaluation) -> str:
    """Where an evaluation is that has not ended."""
    if evaluation.stage:
        points = f", {len(evaluation.points)} points measured" if evaluation.points else ""
        return f"{evaluation.stage.name} {evaluation.stage.detail}".strip() + points
    place = evaluation.queue
    if place is None:
        return evaluation.state
    text = f"queued, {place.ahead} ahead, {place.total} in the queue"
    if place.is_paused:
        return f"{text}; judging of this problem is paused"
    if not place.has_node:
        return f"{text}; no node is online for {evaluation.profile}"
    if place.unable_since:
        return f"{text}; no online node has the backend, problem revision and sandbox that it needs"
    return text if place.expected_wait_s is None else f"{text}, about {place.expected_wait_s:.0f} s expected wait"


def _where(finding: Finding) -> str:
    parts = [
        f"rank {finding.rank}" if finding.rank is not None else "",
        f"size {finding.size}" if finding.size else "",
        f"output {finding.output}" if finding.output else "",
        f"{finding.file}:{finding.line}" if finding.file and finding.line else finding.file or "",
    ]
    return ", ".join(part for part in parts if part) or "everywhere"


def _checks(report: Report) -> Iterator[str]:
    wrong = [(size.size, check) for size in report.sizes for check in size.outputs if not is_right(check)]
    if not wrong:
        return
    yield "\nOutputs beyond the tolerance (an error of 1 is the limit):"
    yield from (_check(size, check) for size, check in wrong)


def _check(size: str, check: OutputCheck) -> str:
    index = ", ".join(map(str, check.first_wrong or ()))
    first = f", the first at [{index}]" if check.first_wrong is not None else ""
    return (
        f"- size {size}, rank {check.rank}, output {check.output}: {check.wrong_elements} of {check.elements} elements "
        f"wrong{first}; largest error {check.max_error:.3g}, rms error {check.rms_error:.3g}"
    )


def _ranks(report: Report) -> Iterator[str]:
    if not report.ranks:
        return
    yield "\nRanks:"
    for rank in report.ranks:
        yield from _rank(rank)


def _rank(rank: RankState) -> Iterator[str]:
    ended = "alive at the end" if rank.exit == "running" else rank.exit
    yield f"- rank {rank.rank}: {ended}, {rank.calls_done} calls done, {rank.phase}"
    if rank.error:
        yield f"  error: {rank.error}"
    if rank.stack:
        yield f"  stack:\n{_indented(rank.stack)}"
    if rank.log:
        yield f"  printed output:\n{_indented(rank.log)}"


def _points(points: Sequence[SweepPoint], *, profile: str) -> Iterator[str]:
    """What a sweep has measured, a line per point."""
    if points:
        yield "\nPoints of the sweep, which rank nothing (median time of a call on its slowest rank):"
    for point in points:
        if point.submission is None or point.reference is None:
            yield f"- {point.size}: {point.verdict}: {point.message}"
            continue
        mine, reference = point.submission.median_us, point.reference.median_us
        words = f"submission {mine:.1f} us, reference {reference:.1f} us"
        if point.verdict != "PASSED":
            words += f", {point.verdict}: {point.message}"
        else:
            words += f", {speedup(point.speedup, point.low, point.high, profile=profile)}"
        bandwidth = "" if point.bus_bytes is None else f", {point.bus_bytes / mine / 1e3:.2f} GB/s of bus bandwidth"
        yield f"- {point.size}: {words}{bandwidth}"


def _times(report: Report) -> Iterator[str]:
    if report.timing is None:
        return
    yield "\nMedian time of a call on its slowest rank:"
    for size in report.timing.sizes:
        floor = f", roofline floor {size.floor_us:.1f} us" if size.floor_us is not None else ""
        mine, reference = size.candidate.median_us, size.baseline.median_us
        words = speedup(size.score, size.low, size.high, profile=report.profile)
        yield f"- size {size.size}: submission {mine:.1f} us, reference {reference:.1f} us, {words}{floor}"
        yield from _beside_times(size)


def _beside_times(size: SizeTiming) -> Iterator[str]:
    """The overhead subtracted, and what calls back to back took."""
    if size.candidate_empty_us is not None and size.empty_us is not None:
        yield f"  less {size.candidate_empty_us:.1f} and {size.empty_us:.1f} us of an empty call"
    if size.looped_us is not None and size.baseline_looped_us is not None:
        looped = f"submission {size.looped_us:.1f} us, reference {size.baseline_looped_us:.1f} us"
        yield f"  back to back on unchanging inputs: {looped}; does not affect the ranking"


def _inside(splits: Splits) -> Iterator[str]:
    """How the time of a recorded call is divided: self-reported by the ranks, without effect on the ranking."""
    yield f"\nInside one recorded call at size {splits.size} (us of each rank):"
    yield splits.submission.advice
    for title, split in (("submission", splits.submission), ("reference", splits.reference)):
        for rank in split.ranks if split is not None else ():
            mixed = f", own kernels that may access peers {rank.mixed_us:.1f}" if rank.mixed_us else ""
            parts = f"compute {rank.compute_us:.1f}, wire {rank.wire_us:.1f}, both at once {rank.both_us:.1f}"
            parts += f", waiting for the last rank {rank.wait_us:.1f}{mixed}, neither {rank.idle_us:.1f}"
            yield f"- {title}, rank {rank.rank}: {rank.call_us:.1f} in all; {parts}"


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.rstrip().splitlines())


def capitalised(text: str) -> str:
    """The text with a capital first letter, the rest as it is."""
    return text[:1].upper() + text[1:]


def shortened(text: str, most: int) -> str:
    """The text, its middle left out where it is longer than `most` characters."""
    if len(text) <= most:
        return text
    head = most * 2 // 3
    tail = most - head
    return f"{text[:head]}\n... {len(text) - most} characters left out ...\n{text[-tail:]}"
