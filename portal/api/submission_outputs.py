"""The API's outputs about submissions and their evaluations."""

import json
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import msgspec
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.reverse import reverse

from evaluator.contract import EvaluationReport, SourceBundle, Stage
from evaluator.contract.request import SourceFile
from evaluator.judging.call_parts import RankSplit
from evaluator.judging.verdicts import Facts
from portal.api.fields import CopiedFields, Made, VerdictField, address, shows, values_of
from portal.api.season_views import SeasonEntryOutput
from portal.seasons.queries import entries_from
from portal.submissions import access, queries, sweeps
from portal.submissions.models import Evaluation, Quarantine, State, Submission
from portal.submissions.queue import QueuePosition
from portal.submissions.reports import presentation, timelines


@shows(
    Evaluation,
    "id url profile mode size state verdict message score score_low score_high score_rule recorded_on "
    "recorded_where node_owner=node_owner.slug problem_revision attempt queued_at started_at finished_at",
)
class EvaluationBrief(CopiedFields):
    """One evaluation of a submission on a profile.

    Attributes:
        size: The one size that mode profile was asked for; empty for the mode's sizes.
        message: The verdict in one sentence.
        score: Speedup over the reference; null where ranks share a GPU and nothing is timed.
        score_low: Of its interval; 0 where nothing is timed.
        score_rule: The timing rule of the score. Scores of different rules are not comparable.
        recorded_on: The date, if it was judged elsewhere; null if this site judged it.
        recorded_where: The hardware, if it was judged elsewhere.
        node_owner: The organisation whose guest node judges it, for its own boards; null for this site's nodes.
        attempt: More than 1 after a failure of the judge's own.
    """

    url = address("api:evaluation", submission_id="submission_id", evaluation_id="pk")
    verdict = VerdictField(help_text="Null until it has ended.")


@shows(Evaluation, "name=stage detail=stage_detail fraction=stage_fraction since=stage_since")
class StageOutput(CopiedFields):
    """What the judge is doing.

    Attributes:
        fraction: 0 to 1, or null.
    """

    name = serializers.ChoiceField(choices=values_of(Stage), source="stage")


@shows(QueuePosition, "ahead total expected_wait_s is_paused pause_reason has_node unable_since")
class QueuePositionOutput(CopiedFields):
    """The queue position of an evaluation.

    Attributes:
        ahead: Evaluations ahead of it.
        total: Evaluations that wait on its profile.
        expected_wait_s: In seconds; null if unknown.
        is_paused: Whether the operator has paused the problem or the queue.
        pause_reason: The operator's reason.
        has_node: Whether a node judges the profile now.
        unable_since: Since when no online node has its backend, revision and sandbox; null if one has.
    """


@shows(Facts, "title explanation advice")
class VerdictFactsOutput(CopiedFields):
    """Explanation and advice for a verdict, as on the pages.

    Attributes:
        explanation: What happened.
        advice: What to try next.
    """


@shows(RankSplit, "rank call_us compute_us wire_us both_us wait_us mixed_us idle_us overlap launches host_waits")
class RankSplitOutput(CopiedFields):
    """Where the time of one rank's recorded call went, in microseconds.

    Attributes:
        call_us: From the first work on any rank to the last.
        compute_us: Compute without data movement.
        wire_us: Data movement between ranks without compute.
        both_us: Compute and data movement at the same time.
        wait_us: Waiting in collectives that another rank has not entered yet.
        mixed_us: In own kernels of a submission that accesses peers from kernels.
        idle_us: None of these.
        overlap: Share of wire time during which something computes.
        launches: Kernels, copies and fills on the device.
        host_waits: How often the host waited before it started more work.
    """


@shows(
    timelines.Recorded,
    "advice=split.advice largest_gap=split.largest gaps_us=split.gaps_us accounted=split.accounted uncertainty_us "
    "gates_apart_us usual_us wire_bytes_s=split.wire_bytes_s flops_s=split.flops_s ranks",
)
class SplitOutput(CopiedFields):
    """How the time of a recorded call is divided. It is self-reported by the ranks, so it affects no score.

    Attributes:
        advice: The largest gap to the floor, as advice in one sentence.
        gaps_us: Time above the floor.
        accounted: Share of the call with recorded activity.
        uncertainty_us: Uncertainty of the alignment between ranks.
        gates_apart_us: How far the ranks' gates, which open at once, lie apart by the devices' clocks.
        usual_us: What calls take that nobody records. The recorded call's time beyond it is in no gap.
        wire_bytes_s: Minimum bytes of the cost model divided by wire time.
        flops_s: Operations of the cost model divided by compute time.
    """

    ranks = RankSplitOutput(many=True, source="split.ranks")


class SplitsOutput(serializers.Serializer[Any]):
    """The recorded call of the submission, and that of the reference where it was recorded."""

    size = serializers.CharField()
    trace_url = serializers.CharField(help_text="All ranks as a trace that Perfetto opens.")
    submission = SplitOutput()
    reference = SplitOutput(allow_null=True)


@shows(Evaluation, "node=node.name stage queue poll_after_s facts report points split")
class EvaluationDetail(EvaluationBrief):
    """An evaluation with its stage or queue position while it lasts, then its report.

    Attributes:
        node: The node that judges it, or null.
    """

    stage = Made(
        lambda evaluation, _: _if_any(
            StageOutput,
            evaluation if evaluation.stage and evaluation.state in (State.BUILDING, State.RUNNING) else None,
        ),
        StageOutput(allow_null=True),
        help_text="Null unless it is being judged.",
    )
    queue = Made(
        lambda _, context: _if_any(QueuePositionOutput, context["live"].place),
        QueuePositionOutput(allow_null=True),
        help_text="Null unless it waits.",
    )
    poll_after_s = Made(
        lambda _, context: context["live"].poll_after_s,
        int | None,
        help_text="Seconds after which to poll again; null at the end.",
    )
    facts = Made(
        lambda evaluation, context: _if_any(
            VerdictFactsOutput, presentation.verdict_facts(evaluation, context["live"].report)
        ),
        VerdictFactsOutput(allow_null=True),
        help_text="The verdict explained; null until there is one.",
    )
    report = Made(
        lambda _, context: _report(context["live"].report),
        {"oneOf": [{"$ref": "#/components/schemas/EvaluationReport"}, {"type": "null"}]},
        help_text="Findings, timing, ranks; null until it has ended. Its `timeline` and "
        "`machine_code` are null here: see `split` and readMachineCode.",
    )
    points = Made(
        lambda evaluation, _: [json.loads(point.to_json()) for point in sweeps.points_of(evaluation)],
        {"type": "array", "items": {"$ref": "#/components/schemas/SweepPoint"}},
        help_text="What a sweep has measured so far, the smallest value first; empty in other modes.",
    )
    split = Made(
        lambda evaluation, context: _split(evaluation, context["live"].report, context["request"]),
        SplitsOutput(allow_null=True),
        help_text="How a recorded call's time is divided; null if none was recorded.",
    )


def _if_any(serializer: type[serializers.Serializer[Any]], shown: Any) -> Any:
    return serializer(shown).data if shown else None


def _report(report: EvaluationReport | None) -> Any:
    return report and json.loads(msgspec.structs.replace(report, timeline=None, machine_code=None).to_json())


def _split(evaluation: Evaluation, report: EvaluationReport | None, request: Request) -> Any:
    calls = {one.title: one for one in timelines.recorded_calls(report)} if report else {}
    if report is None or report.timeline is None or "Submission" not in calls:
        return None
    trace_url = reverse("api:trace", args=[evaluation.submission_id, evaluation.pk], request=request)
    both = {"submission": calls["Submission"], "reference": calls.get("Reference")}
    shown = SplitsOutput({"size": report.timeline.size, "trace_url": trace_url, **both}).data
    return json.loads(json.dumps(shown), parse_float=lambda text: round(float(text), 4))


@shows(Quarantine, "reason at")
class QuarantineOutput(CopiedFields):
    """Why an entry is on no board.

    Attributes:
        at: Since when.
    """


@shows(
    Submission,
    "id url author=author.username problem backend visibility note notes built_on=built_on_id "
    "source_digest=source.digest created_at evaluations",
)
class SubmissionBrief(CopiedFields):
    """A submission as a list shows it.

    Attributes:
        note: A line that its author alone sees.
        notes: What its author says of it, in Markdown.
        built_on: Id of the submission that it is built on; null where there is none that you may open.
    """

    url = address("api:submission", submission_id="pk")
    evaluations = EvaluationBrief(many=True, help_text="Every evaluation, the newest first.")


class SubmissionDetail(SubmissionBrief):
    """A submission with its newest evaluation in full."""

    # The context brings `evaluations`, the newest first, the `newest` as it is shown, and `is_new`: stored just now.

    evaluations = Made(  # type: ignore[assignment]  # the metaclass takes it out of the class
        lambda _, context: _evaluations(context),
        EvaluationBrief(many=True),
        help_text="Every evaluation, the newest first.",
    )
    quarantine = Made(
        # What was stored just now is in none.
        lambda submission, context: _if_any(
            QuarantineOutput, not context["is_new"] and queries.quarantine_of(submission)
        ),
        QuarantineOutput(allow_null=True),
        help_text="Null unless operators removed it from the boards.",
    )
    built_on = Made(
        lambda submission, context: getattr(access.visible_parent(context["request"].user, submission), "pk", None),
        UUID | None,
        help_text="Id of its parent, if you may open that; else null.",
    )
    evaluation = Made(
        lambda _, context: context["newest"], EvaluationDetail, help_text="The newest evaluation in full."
    )
    seasons = Made(
        lambda submission, context: SeasonEntryOutput(entries_from(submission, context["evaluations"]), many=True).data,
        SeasonEntryOutput(many=True),
        help_text="The seasons that it is an entry of, and whether it counts.",
    )


def _evaluations(context: Mapping[str, Any]) -> list[Any]:
    newest, earlier = context["newest"], context["evaluations"][1:]
    brief = {name: newest[name] for name in EvaluationBrief._declared_fields}  # noqa: SLF001 - REST framework's own
    return [brief, *EvaluationBrief(earlier, many=True, context=context).data] if earlier else [brief]


@shows(SourceFile, "path text")
class FileOutput(CopiedFields):
    """One file of a submission."""


@shows(SourceBundle, "digest files")
class SourceOutput(CopiedFields):
    """The files of a submission.

    Attributes:
        digest: SHA-256 over names and contents.
    """

    files = FileOutput(many=True)
