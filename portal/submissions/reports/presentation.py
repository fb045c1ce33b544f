"""What the submission page shows of an evaluation, gathered before any template sees it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from django.conf import settings
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import Truncator

from evaluator.contract import (
    ClockKind,
    EvaluationReport,
    Mode,
    SizeTiming,
    SourceBundle,
    Stage,
    Timing,
    Verdict,
    is_informative,
)
from evaluator.hardware import profiles
from evaluator.judging import driver_faults
from evaluator.judging.verdicts import FACTS, Facts
from portal.catalog import rooflines
from portal.catalog.highlighting import FIRST_LINES, MOST_LINES, Listing, listings
from portal.catalog.size_times import size_times
from portal.charts.spread import Series, block_ratios, timed_calls, times_spread
from portal.core.live_links import Kind, Subject, address
from portal.submissions.models import Evaluation, State, Visibility
from portal.submissions.queries import LiveView, expected_stage_seconds
from portal.submissions.reports import machine_code, timelines
from portal.submissions.reports.failing_lines import FailingLine, error_maps, failing_lines, marks_for_scripts
from problems import registry

STAGE_LABELS = {
    Stage.PREPARING: "Preparing",
    Stage.BUILDING: "Building",
    Stage.STARTING: "Starting ranks",
    Stage.VERIFYING: "Verifying",
    Stage.TIMING: "Timing",
    Stage.COMPARING: "Comparing",
    Stage.REPORTING: "Reporting",
}


def stage_steps(evaluation: Evaluation, report: EvaluationReport | None) -> list[dict[str, Any]]:
    """Every stage as `done`, `now`, `later` or `end` (a failure showed there), and its time where the report has it."""
    if report is not None:
        last = len(report.stages) - 1 if report.verdict is not Verdict.PASSED else None
        return [
            {"label": STAGE_LABELS[entry.stage], "status": "end" if index == last else "done", "seconds": entry.seconds}
            for index, entry in enumerate(report.stages)
        ]
    order = list(STAGE_LABELS)
    expected = expected_stage_seconds(evaluation) if evaluation.state in State.in_a_slot() else {}
    now = order.index(Stage(evaluation.stage)) if evaluation.stage in set(Stage) else -1
    statuses = ["done" if index < now else "now" if index == now else "later" for index in range(len(order))]
    return [
        {"label": STAGE_LABELS[stage], "status": status, "seconds": None, "expected_s": expected.get(stage)}
        for stage, status in zip(order, statuses, strict=True)
    ]


_ADVICE_CHECKED = "Submit it in ranked mode: then it is timed side by side with the reference and enters the board."
_ADVICE_PROFILED = (
    "Read below where the time of one call went. Submit it in ranked mode to have it timed and to enter the board."
)
_ADVICE_UNTIMED = (
    "Ranked mode enters the board here. To know how fast it is, choose a profile whose ranks have a GPU each."
)
_ADVICE_WITHOUT_FLOOR = "Compare your times with the reference's, size by size."


def verdict_facts(evaluation: Evaluation, report: EvaluationReport | None = None) -> Facts | None:
    """Explanation and advice for the verdict; None before there is one. Advice on a pass depends on its report."""
    if not evaluation.verdict:
        return None
    facts = FACTS[Verdict(evaluation.verdict)]
    if evaluation.verdict != Verdict.PASSED:
        return facts
    if not profiles.get(evaluation.profile).measures_time:
        return replace(facts, advice=_ADVICE_UNTIMED)
    if evaluation.mode in (Mode.CHECK, Mode.PUBLISHED):
        return replace(facts, advice=_ADVICE_CHECKED)
    if evaluation.mode == Mode.PROFILE:
        return replace(facts, advice=_ADVICE_PROFILED)
    sizes = report.timing.sizes if report is not None and report.timing is not None else ()
    has_floor = any(size.floor_us is not None for size in sizes)
    return facts if has_floor else replace(facts, advice=_ADVICE_WITHOUT_FLOOR)


def waits_for_hardware(live: LiveView) -> bool:
    """Whether no node is online that could take what waits."""
    return live.evaluation.state == State.QUEUED and live.place is not None and not live.place.has_node


def state_text(live: LiveView) -> str:
    """The state in a few words, or the verdict: for the title of the page, and beside the button of the desk."""
    evaluation = live.evaluation
    facts = verdict_facts(evaluation)
    if facts is not None:
        return facts.title
    if waits_for_hardware(live):
        return "Waiting for hardware"
    if evaluation.state in (State.QUEUED, State.BUILT) and live.place is not None:
        return f"{evaluation.get_state_display()}, {live.place.ahead} ahead"
    if evaluation.stage in set(Stage):
        return f"Being judged: {STAGE_LABELS[Stage(evaluation.stage)]}"
    return str(evaluation.get_state_display())


_SPOKEN = 200
"""The most characters of a reason that are announced."""


def spoken_status(live: LiveView) -> str:
    """One or two sentences for screen readers, changed only when the state or stage changes: the state, and why."""
    evaluation = live.evaluation
    reason = ""
    if evaluation.verdict and evaluation.verdict != Verdict.PASSED and evaluation.message:
        first = evaluation.message.splitlines()[0].split(". ")[0].rstrip(".")
        reason = f" {Truncator(first).chars(_SPOKEN)}."
    elif waits_for_hardware(live):
        reason = f" No node is online for {evaluation.profile}."
    return f"{'Finished: ' if evaluation.verdict else ''}{state_text(live)}.{reason}"


_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


def tries_sentence(live: LiveView) -> str:
    """Which try this is and why each before it ended; empty for a first one, and while it waits for its next."""
    # In the queue the stage's words say why it is there again.
    if not live.earlier or live.evaluation.state == State.QUEUED:
        return ""
    ends = (
        f"the {_ordinal(one.attempt)} ended as {one.verdict}: {one.reason}"
        if one.verdict is not None
        else f"the {_ordinal(one.attempt)} was lost: {one.reason}"
        for one in live.earlier
    )
    return f"{_ordinal(live.evaluation.attempt).capitalize()} try: {'; '.join(ends)}"


def _ordinal(number: int) -> str:
    return _ORDINALS[number - 1] if number <= len(_ORDINALS) else f"{number}th"


@dataclass(frozen=True, kw_only=True)
class SourceView:
    """One file of a submission, and by line what a verdict says of it."""

    path: str
    listing: Listing
    marks: Mapping[int, FailingLine]

    @property
    def rows(self) -> SafeString:
        """The lines as rows of a table, each with how many stand left out before it, where some do."""
        # Cells and rows end by themselves, in HTML: a third of a long page would be their ends.
        form = '<tr id="{}-L{}"{}{}><td>{}<td{}>{}'
        lines, before = [], 0
        for number, line in self.listing.lines:
            gap = format_html(' data-gap="{}"', number - before - 1) if number > before + 1 else SafeString("")
            lines.append(self._cells(number, line, gap))
            before = number
        return format_html_join("", form, lines)

    def _cells(self, number: int, line: SafeString, gap: SafeString) -> tuple[Any, ...]:
        mark = self.marks.get(number)
        if mark is None:
            kind = note = SafeString("")
        else:
            kind = SafeString(' class="is-waiting"' if mark.is_quiet else ' class="is-marked"')
            note = format_html(' data-note="{}"', mark.why) if mark.is_quiet else SafeString("")
        return self.path, number, kind, gap, number, note, line


_AROUND = 12
"""Lines before and after one that a verdict is about that an excerpt has."""
_EXCERPT_CHARACTERS = 50_000
"""Of HTML in the rows of an excerpt, all files together: a page of a failure weighs 150 kB at most."""


def source_views(
    bundle: SourceBundle, *, marks: Sequence[FailingLine] = (), is_whole: bool = True
) -> Iterator[SourceView]:
    """Every file of `bundle`, `solution.py` first, with the lines that a verdict is about.

    Unless `is_whole`, an excerpt: the lines around those, then the first ones, as many as `FIRST_LINES` in all.
    """
    found = listings(bundle, most=MOST_LINES if is_whole or marks else FIRST_LINES)
    for path, listing in (found if is_whole else _excerpts(found, marks)).items():
        yield SourceView(path=path, listing=listing, marks={mark.line: mark for mark in marks if mark.path == path})


def _excerpts(found: Mapping[str, Listing], marks: Sequence[FailingLine]) -> dict[str, Listing]:
    lines = {(path, number): line for path, listing in found.items() for number, line in listing.lines}
    marked = [(mark.path, mark.line) for mark in marks]
    near = [(path, line + step) for path, line in marked for step in range(-_AROUND, _AROUND + 1)]
    kept: set[tuple[str, int]] = set()
    room = _EXCERPT_CHARACTERS
    for place in dict.fromkeys((*marked, *near, *lines)):
        if place in lines and len(lines[place]) <= room and len(kept) < FIRST_LINES:
            room -= len(lines[place])
            kept.add(place)
    return {
        path: replace(
            listing,
            lines=(few := tuple(each for each in listing.lines if (path, each[0]) in kept)),
            left_out=listing.left_out + len(listing.lines) - len(few),
        )
        for path, listing in found.items()
    }


def live_context(live: LiveView) -> dict[str, Any]:
    """Everything that the live part of the page is rendered from."""
    report = live.report
    stages = stage_steps(live.evaluation, report)
    paths = [file.path for file in live.evaluation.submission.source.files.files]
    marks = failing_lines(report, paths=paths) if report else ()
    return {
        "live": live,
        "evaluation": live.evaluation,
        "report": report,
        "profile": profiles.get(live.evaluation.profile),
        "facts": verdict_facts(live.evaluation, report),
        "stages": stages,
        "status_text": spoken_status(live),
        "state_text": state_text(live),
        "waits_for_hardware": waits_for_hardware(live),
        "stream": address(Subject(Kind.EVALUATION, str(live.evaluation.pk))),
        "earlier": tries_sentence(live),
        "unserved_hours": f"{settings.UNSERVED_HOURS:.0f}",
        "expected_total_s": sum(step.get("expected_s") or 0.0 for step in stages),
        "paths": paths,
        **(_findings(report) if report else {}),
        "marks": marks,
        "marks_text": marks_for_scripts(marks),
        **(_times(live.evaluation, report, report.timing) if report and report.timing else {}),
    }


_PUBLIC = (
    "evaluation_id problem revision backend profile world_size mode dtype verdict message timing environment "
    "started_at finished_at is_untimed"
)


def public_part(report: EvaluationReport) -> EvaluationReport:
    """What everybody may read of the report on a ranked entry that passed, whoever may read its source."""
    return EvaluationReport(**{name: getattr(report, name) for name in _PUBLIC.split()}, source_digest="")


def entry_context(evaluation: Evaluation, report: EvaluationReport) -> dict[str, Any]:
    """What everybody may see of a ranked entry that passed, whoever may read its source: nothing that tells of it."""
    timing = report.timing
    return {
        "evaluation": evaluation,
        "profile": profiles.get(evaluation.profile),
        "timing": timing,
        "environment": _environment(report)["environment"],
        **(_roofline(evaluation, timing) if timing is not None else {}),
    }


def _times(evaluation: Evaluation, report: EvaluationReport, timing: Timing) -> dict[str, Any]:
    """The speedup of every block, the times of every call, and the roofline."""
    calls = timed_calls(report.record)
    # Whether all work of submission and reference was queued before the gate opened; None where the report has it not.
    records = report.record.sizes if report.record else ()
    queued = {size.size: (size.queues, size.reference_queues) for size in records}
    blocks = [_in_words(timing, timing.blocks), *(_in_words(size, size.ratios) for size in timing.sizes)]
    return {
        "timing": timing,
        "is_gated": report.record is not None and report.record.rules.clock is ClockKind.GATE,
        "queued": [queued.get(size.size, (None, None)) for size in timing.sizes],
        "has_looped": any(size.looped_us is not None for size in timing.sizes),
        "figure": block_ratios(timing),
        "spreads": [
            (f"spread-{size.size}", size.size, times_spread(size, calls.get(size.size, Series())))
            for size in timing.sizes
        ],
        "has_calls": bool(calls),
        # The speedup of every block, of all sizes together and of each.
        "block_rows": list(zip_longest(*blocks, fillvalue="")),
        **_roofline(evaluation, timing),
    }


def _in_words(of: Timing | SizeTiming, ratios: Sequence[float]) -> list[str]:
    return [f"{ratio:.3f}" if is_informative(of.low, of.high) else "too noisy to tell" for ratio in ratios]


def _findings(report: EvaluationReport) -> dict[str, Any]:
    """What the judge saw of outputs, ranks and machine."""
    # Whether an output is within its bounds; that of all errors together (rms) is known from findings alone.
    wrong = {(one.size, one.rank, one.output) for one in report.findings if one.verdict is Verdict.WRONG_RESULT}
    sizes = report.record.sizes if report.record else ()
    return {
        "rank_numbers": range(report.world_size),
        "error_maps": error_maps(report),
        "checks": [
            (size, check, check.is_within and (size.size, check.rank, check.output) not in wrong)
            for size in report.sizes
            for check in size.outputs
        ],
        "largest_error": max((check.max_error for size in report.sizes for check in size.outputs), default=0.0),
        "has_rank_story": report.verdict is not Verdict.PASSED or any(rank.stack or rank.log for rank in report.ranks),
        **_environment(report),
        # Evidence about the times: collectives per rank, GPUs around timed calls, driver faults, link traffic.
        "collectives": [(rank.rank, one) for rank in report.ranks for one in rank.collectives],
        "gpu_readings": [(size.size, reading) for size in sizes for reading in size.gpus if not reading.is_of_phase],
        "driver_faults": [(driver_faults.sentence(one), one.noticed_at) for one in report.driver_faults or ()],
        "wires": [(size.size, size.links) for size in sizes if size.links is not None],
        "primed_sizes": sorted({size.size for size in sizes if size.is_primed}),
        **_timeline(report),
    }


_OF_THE_JUDGE = ("judge.", "sandbox.")


def _environment(report: EvaluationReport) -> dict[str, Any]:
    """What the node was, and apart from it how the judge was set."""
    facts = [(name, value) for name, value in report.environment.items() if value]
    return {
        "environment": [pair for pair in facts if not pair[0].startswith(_OF_THE_JUDGE)],
        "judge_settings": [pair for pair in facts if pair[0].startswith(_OF_THE_JUDGE)],
    }


def _timeline(report: EvaluationReport) -> dict[str, Any]:
    """The recorded call: its picture, where its time went, and its kernels."""
    calls = timelines.recorded_calls(report)
    rows = timelines.kernel_rows(calls[-1]) if calls else []
    kernels = {
        "kernel_views": machine_code.kernel_views(report, rows),
        "unavailable": machine_code.unavailable(report),
    }
    if not calls:
        return {"recorded_calls": [], **kernels}
    return {
        "recorded_calls": calls,
        "timeline_picture": timelines.picture(calls, least=timelines.least_work(report)),
        "kernel_rows": rows,
        **kernels,
    }


def _roofline(evaluation: Evaluation, timing: Timing) -> dict[str, Any]:
    """The submission and the reference under the profile's ceilings; empty where there is no roofline."""
    profile = profiles.get(evaluation.profile)
    if profile.peaks is None or evaluation.score is None:
        return {}
    try:
        problem = registry.get(evaluation.submission.problem)
    except registry.UnknownProblem:
        return {}
    if registry.revision(problem.slug) != evaluation.problem_revision:
        return {}
    entry = _entry(evaluation, timing)
    points = [
        point for point in rooflines.points_of(problem, profile=profile.name, best=entry) if point.best_us is not None
    ]
    if not points:
        return {}
    return {
        "roofline_points": points,
        "roofline_figure": rooflines.problem_figure(points, [entry], profile=profile),
    }


def _entry(evaluation: Evaluation, timing: Timing) -> rooflines.Entry:
    """An evaluation as a roofline shows it, whether or not it is on a board."""
    submission = evaluation.submission
    return rooflines.Entry(
        author=submission.author.username,
        backend=submission.backend,
        submission_id=submission.pk,
        evaluation_id=evaluation.pk,
        is_source_public=submission.visibility == Visibility.PUBLIC,
        sizes=size_times(timing),
    )
