"""Reports and surveys as text for a terminal."""

from collections.abc import Iterator

from evaluator.contract import EvaluationReport, RankState, SizeTiming, SweepPoint, Timing, Verdict, is_informative
from evaluator.hardware import profiles
from evaluator.hardware.ceilings import Ceilings
from evaluator.hardware.profiles import Profile
from evaluator.host.sandbox.bubblewrap import Confinement
from evaluator.host.sandbox.doctor import NEVER_ENFORCED, remedy
from evaluator.judging.recompute import Recomputed
from evaluator.judging.statistics import COVERAGE
from evaluator.judging.verdicts import FACTS

_MOST_WORKS = 8
"""How many names of the recorded call are shown; the report has more."""


def report_text(report: EvaluationReport) -> str:
    """A report for a person."""
    return "\n".join(_report_lines(report)) + "\n"


def _report_lines(report: EvaluationReport) -> Iterator[str]:
    yield f"{report.verdict.value}: {report.message}"
    if report.verdict.value != "PASSED":
        yield f"  {FACTS[report.verdict].explanation} {FACTS[report.verdict].advice}"
    for finding in report.findings:
        if finding.message != report.message:
            yield f"  also {finding.verdict.value}: {finding.message}"
        if finding.file and finding.line:
            yield f"  at {finding.file}:{finding.line}" + (f", rank {finding.rank}" if finding.rank is not None else "")
    for warning in report.warnings:
        yield f"  {warning.verdict.value} in ranked mode: {warning.message}"
    yield from (f"  note: {note}" for note in report.notes)
    for size in report.sizes:
        yield f"size {size.size}: {size.calls} calls, {size.checked_calls} checked"
        for check in size.outputs:
            yield (
                f"  rank {check.rank} {check.output}: {check.wrong_elements} of {check.elements} wrong, "
                f"largest error {check.max_error:.3g} of the limit, rms error {check.rms_error:.3g}"
                + (f", {check.extreme_elements} beyond it as allowed" if check.extreme_elements else "")
            )
    yield from _evidence_lines(report)
    profile = profiles.get(report.profile)
    if report.timing is not None:
        yield from _timing_lines(report.timing, profile)
    yield from (f"{point.size:<24} {', '.join(_point_words(point, profile))}" for point in report.points)
    for rank in report.ranks:
        yield from _rank_lines(rank, verbose=report.verdict.value != "PASSED")
    stages = ", ".join(f"{item.stage.value} {item.seconds:.2f} s" for item in report.stages)
    yield f"profile {report.profile}, sandbox {report.sandbox.value}; {stages}"


def _timing_lines(timing: Timing, profile: Profile) -> Iterator[str]:
    """The score, and for every size the times without those of empty calls."""
    yield _speedup(timing, profile)
    yield from (f"  {item.size}: {', '.join(_size_words(item, profile))}" for item in timing.sizes)


def _speedup(timed: Timing | SizeTiming | SweepPoint, profile: Profile) -> str:
    """A speedup with its interval, without the number where times are indicative."""
    score = timed.speedup if isinstance(timed, SweepPoint) else timed.score
    if not is_informative(timed.low, timed.high):
        return "too noisy to tell a speedup"
    words = f"speedup {score:.3f}" if profile.is_ranked_by_speed else "speedup is indicative here"
    return f"{words} ({100 * COVERAGE:.0f} % interval {timed.low:.3f} to {timed.high:.3f})"


def _point_words(point: SweepPoint, profile: Profile) -> Iterator[str]:
    if point.reference is None:
        yield f"{point.verdict.value}: {point.message}"
        return
    if point.submission is not None:
        yield f"{point.submission.median_us:.1f} us against {point.reference.median_us:.1f} us"
    else:
        yield f"{point.reference.median_us:.1f} us"
    if point.speedup is not None:
        yield _speedup(point, profile)
    if point.floor_us is not None:
        yield f"floor {point.floor_us:.1f} us"
    if point.bus_bytes is not None:
        yield f"{point.bus_bytes / (point.submission or point.reference).median_us / 1e3:.2f} GB/s of bus bandwidth"
    if point.verdict is not Verdict.PASSED:
        yield f"{point.verdict.value}: {point.message}"


def _size_words(item: SizeTiming, profile: Profile) -> Iterator[str]:
    yield f"{item.candidate.median_us:.1f} us against {item.baseline.median_us:.1f} us"
    yield _speedup(item, profile)
    if item.floor_us is not None:
        yield f"floor {item.floor_us:.1f} us"
    yield f"without the {item.candidate_empty_us:.1f} us of an empty call"
    if item.forgeable_us:
        yield f"at most {item.forgeable_us:.1f} us of it forgeable"
    if item.looped_us is not None and item.baseline_looped_us is not None:
        yield f"back to back {item.looped_us:.1f} us against {item.baseline_looped_us:.1f} us"


def _evidence_lines(report: EvaluationReport) -> Iterator[str]:
    """Detected hardware paths, link traffic, and the work of the recorded call."""
    for seen in report.primitives:
        yield f"{seen.primitive.value}, shown by {seen.evidence.value}: {seen.detail}"
    for size in report.record.sizes if report.record is not None else ():
        if size.links is not None and size.links.calls:
            moved, least = max((*size.links.sent_bytes, *size.links.received_bytes)), size.links.least_bytes
            yield f"links at {size.size}: {moved:,} bytes a call at the busiest rank, {least:,.0f} needed"
            if size.links.flag:
                yield f"  FLAG: {size.links.flag}"
        elif size.links is not None:
            yield f"links at {size.size}: {size.links.note}"
    if (recorded := report.recorded_work) is not None:
        yield f"recorded call at {recorded.size}: {recorded.note or f'{len(recorded.works)} names'}"
        for work in recorded.works[:_MOST_WORKS]:
            yield f"  {work.us:10.1f} us  {work.count} x {work.kind.value} {work.name}"


def recomputed_text(report: EvaluationReport, found: Recomputed) -> str:
    """The result of a report's own calls."""
    lines = []
    if (timing := found.timing) is not None:
        lines.append(f"speedup {timing.score:.6f}, interval {timing.low:.6f} to {timing.high:.6f}")
        lines.append(f"ranked by {timing.low:.6f}; verdict on the times: {found.verdict}")
    elif found.agrees:
        lines.append(f"nothing to compute again: {report.verdict} in mode {report.mode} uses no times")
    lines += [f"DIFFERS  {difference}" for difference in found.differences]
    lines.append("the report agrees with its record" if found.agrees else "the report does NOT agree with its record")
    return "\n".join(lines) + "\n"


def _rank_lines(rank: RankState, *, verbose: bool) -> Iterator[str]:
    if verbose:
        yield f"rank {rank.rank}: {rank.phase} ({rank.exit}, {rank.calls_done} calls done)"
        if rank.error:
            yield _indented(rank.error)
    if rank.log:
        yield f"rank {rank.rank} printed:"
        yield _indented(rank.log)


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.strip().splitlines())


def confinement_text(found: Confinement, *, profile: Profile) -> str:
    """What a machine can enforce, property by property, and whether it may do ranked work."""
    lines = [f"sandbox level: {found.level.value} (ranked public work on {profile.name} requires: {profile.sandbox})"]
    weaker = [probe for probe in found.missing if not probe.is_demanded]
    for probe in (each for each in found.probes if each not in weaker):
        mark = "yes" if probe.holds else "NO "
        lines.append(f"  {mark}  {probe.name}" + (f": {probe.detail}" if probe.detail else ""))
    lines += [f"  --   not enforced on any node: {text}" for text in NEVER_ENFORCED[profile.device]]
    lines += [f"  --   not enforced on this node: {probe.name}: {probe.detail}" for probe in weaker]
    if mending := remedy(found.probes):
        lines.append(f"without a sandbox nothing is judged here; to mend it: {mending}")
    may = found.level.is_at_least(profile.sandbox)
    lines.append("ranked public work: " + ("yes" if may else "refused; the properties marked NO are missing"))
    return "\n".join(lines) + "\n"


def ceilings_text(found: Ceilings) -> str:
    """Measured ceilings for a person."""
    return "\n".join(_ceilings_lines(found)) + "\n"


def _ceilings_lines(found: Ceilings) -> Iterator[str]:
    yield f"{found.profile}, measured {found.measured_at}, torch {found.environment.get('torch', '?')}"
    for dtype, flops in found.arithmetic_flops.items():
        yield f"  matrix product {dtype:<16} {flops / 1e12:10.3g} TFLOP/s"
    yield f"  device memory, copy             {found.memory_bytes_s / 1e9:10.3g} GB/s read and written"
    if found.pairs:
        rates = [pair.bytes_s / 1e9 for pair in found.pairs]
        yield f"  peer copy, one way              {min(rates):10.3g} to {max(rates):.3g} GB/s over {len(rates)} pairs"
    for rate in found.collectives:
        moved = f"{rate.name:<12} {rate.message_bytes:>12,} bytes {rate.median_us:10.1f} us"
        yield f"  {moved}, {rate.bus_bytes_s / 1e9:.3g} GB/s bus"
    yield f"  all-reduce of one element       {found.empty_collective_us:10.1f} us"
    if found.barrier_us is not None:
        yield f"  symmetric-memory barrier        {found.barrier_us:10.1f} us"
    yield from (f"  {note}" for note in found.notes)
