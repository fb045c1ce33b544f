"""Filling a run: repeated and broken uploads, failed sources, quotas, and what stays hidden."""

import io
import tracemalloc
import zipfile
from datetime import timedelta

import pytest
from django.utils import timezone

from evaluator.contract import Verdict
from portal.accounts.models import Organisation
from portal.accounts.organisations import create_organisation, default_organisation
from portal.core.errors import Refusal
from portal.ranking.models import Standing
from portal.runs import actions, queries, uploads
from portal.runs.actions import attempt_intake
from portal.runs.forms import RunForm
from portal.runs.models import Attempt, RunEvent
from portal.runs.uploads import MAX_TRAJECTORY_BYTES, redact
from portal.submissions import access, quotas
from portal.submissions import actions as submissions
from portal.submissions import queries as submission_queries
from portal.submissions.models import Evaluation, GpuUse, State, Submission
from problems import registry
from tests.evaluator import odd_archives
from tests.portal.api.problem import assert_problem
from tests.portal.runs.rows import add, end, join, line, make_run

pytestmark = pytest.mark.django_db


def statuses(bulk):
    return [result.status for result in bulk.results]


def test_an_upload_sent_twice_adds_nothing(alice):
    run = make_run(alice)
    wanted = [line(sample=number) for number in range(3)]
    assert statuses(add(run, *wanted)) == ["created"] * 3
    assert statuses(add(run, *wanted, line(sample=3))) == ["repeated"] * 3 + ["created"]
    assert Attempt.objects.count() == Submission.objects.count() == Evaluation.objects.count() == 4


def test_another_source_for_the_same_sample_and_step_is_refused_because_a_run_is_append_only(alice):
    run = make_run(alice)
    add(run, line())
    [result] = add(run, line(source="def solution(tensor):\n    return tensor\n")).results
    assert (result.status, result.refusal.status, result.refusal.field) == ("refused", 409, "key")


def test_two_lines_of_one_upload_cannot_be_the_same_attempt(alice):
    bulk = add(make_run(alice), line(), line(key="another"), line())
    assert statuses(bulk) == ["created", "refused", "repeated"]
    first, other, again = bulk.results
    assert again.attempt == first.attempt
    assert "Line 1 of this upload has a different attempt here: key" in other.refusal.message


@pytest.mark.parametrize(
    ("source", "verdict"),
    [
        ("", Verdict.IMPORT_ERROR),
        ("def solution(tensor:\n", Verdict.IMPORT_ERROR),
        ("x = 1\n", Verdict.IMPORT_ERROR),
        ("half a character: \ud800", Verdict.IMPORT_ERROR),
        ("#" * 600_000, Verdict.LIMIT_EXCEEDED),
    ],
)
def test_a_source_that_needs_no_judge_is_a_failed_attempt_not_a_refused_line(alice, source, verdict):
    run = make_run(alice)
    [result] = add(run, line(source=source)).results
    assert (result.status, result.attempt.verdict, result.attempt.state) == ("created", verdict, "ended")
    assert not Evaluation.objects.exists()
    assert [event.kind for event in RunEvent.objects.all()] == ["attempt.ended", "run.completed"]
    assert statuses(add(run, line(source=source))) == ["repeated"]


def test_what_the_profile_cannot_judge_is_unsupported_and_counted_apart(alice):
    run = make_run(alice, profile="h200x8-nomc", backend="cuda")
    source = 'CUDA = "multimem.ld_reduce"\n\n\ndef solution(tensor):\n    return tensor\n'
    [result] = add(run, line(source=source)).results
    assert result.attempt.verdict == Verdict.UNSUPPORTED
    found = queries.run_figures(run)
    assert (found.attempted, found.solved, found.measured) == (1, 0, found.problems - 1)
    assert found.correct_at_1.value == 0
    # Nobody knows whether it is right.
    assert (found.bounds.low, found.bounds.high) == (0, pytest.approx(1 / found.problems))


def test_a_stream_that_is_not_what_it_should_be_is_refused_line_by_line():
    good = b'{"problem": "allreduce", "source": "x"}\n'
    body = (
        good
        + b"\n{not json}\n[1]\n"
        + b'{"problem": "allreduce"}\n'
        + b'{"problem": 3, "source": "x"}\n'
        + b"\xff\n"
        + good
    )
    parsed = list(uploads.read_lines(io.BytesIO(body)))
    assert [entry.number for entry in parsed] == [1, 2, 3, 4, 5, 6, 7]
    assert [entry.refusal is None for entry in parsed] == [True, False, False, False, False, False, True]


def test_a_line_that_never_ends_costs_no_memory_and_the_next_one_is_read():
    body = b"x" * (9 * 1024 * 1024) + b"\n" + b'{"problem": "allreduce", "source": "x"}\n'
    first, second = uploads.read_lines(io.BytesIO(body))
    assert first.refusal.status == 413
    assert second.attempt.problem == "allreduce"


def test_odd_numbers_and_nesting_are_refused_like_any_other_mistake():
    huge = b'{"problem": "allreduce", "source": "x", "cost_usd": 1' + b"0" * 400 + b"}\n"
    # Somewhere among these is what can just be read and not be written out again.
    deep = [b'{"problem": ' + b"[" * depth + b"]" * depth + b"}\n" for depth in range(700, 1010)]
    parsed = list(uploads.read_lines(io.BytesIO(huge + b"".join(deep))))
    assert {entry.refusal.status for entry in parsed} == {422}


@pytest.mark.parametrize("value", ["1e999", "[" * 300 + "]" * 300, '"\\ud800"'])
def test_sampling_settings_that_no_database_takes_are_refused(alices, value):
    declaration = (
        '{"model": "m", "mode": "single_shot", "profile": "cpux2", "sampling": {"temperature": ' + value + "}}"
    )
    answer = alices.generic("POST", "/api/v1/runs/", declaration, content_type="application/json")
    assert_problem(answer, status=422, field="sampling")


def test_half_a_character_is_refused_in_an_answer_that_can_be_written(alices):
    declaration = '{"model": "\\ud800", "mode": "single_shot", "profile": "cpux2"}'
    assert_problem(alices.generic("POST", "/api/v1/runs/", declaration, content_type="application/json"), status=422)


def test_a_path_that_no_archive_holds_is_refused(alice):
    with pytest.raises(Refusal) as refused:
        uploads.attempt_from({"problem": "allreduce", "files": {"a/" * 40_000 + "b.py": "x"}})
    assert refused.value.status == 422


def test_a_bomb_of_many_small_files_is_not_unpacked():
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("allreduce/0/solution.py", "x = 1")
        for number in range(100):
            archive.writestr(f"allreduce/0/f{number}.py", b"#" * 500_000)
    tracemalloc.start()
    [parsed] = uploads.read_archive(packed)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert parsed.attempt.fault[0] == Verdict.LIMIT_EXCEEDED
    assert peak < 12_000_000


def test_a_packing_that_cannot_be_stopped_at_a_size_is_refused():
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("allreduce/0/solution.py", b"#" * 1_000_000)
    [parsed] = uploads.read_archive(packed)
    assert "compression method" in parsed.refusal.message


@pytest.mark.parametrize("archive", odd_archives.UNREADABLE)
def test_an_archive_or_a_file_of_it_that_cannot_be_read_is_refused(archive):
    packed = io.BytesIO(odd_archives.unreadable(archive, path="allreduce/0/solution.py"))
    with pytest.raises(Refusal) as refused:
        _raise_refusals(uploads.read_archive(packed))
    assert ".zip" in refused.value.remedy or "password" in refused.value.remedy


def _raise_refusals(lines):
    """The whole archive is refused by an exception, a file of it in its own line."""
    for each in lines:
        if each.refusal is not None:
            raise each.refusal


def test_a_file_without_a_name_is_refused_by_itself(alices, alice):
    run = make_run(alice)
    attempt = {"problem": "allreduce", "files": {"": "x = 1"}}
    assert_problem(alices.post(f"/api/v1/runs/{run.pk}/attempts/", attempt, format="json"), status=422)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("allreduce/0/solution.py", line()["source"])
        archive.writestr(zipfile.ZipInfo(""), "x = 1")
    taken, stranger = uploads.read_archive(packed)
    assert taken.refusal is None
    assert "does not name an attempt" in stranger.refusal.message


@pytest.mark.parametrize("piece", ["a.", "a-", "-eyJ", "-eyJaaaa"])
def test_a_trajectory_made_to_be_slow_is_not(piece):
    """Each took a web process ten seconds once, which shows here as the slowest test."""
    text = piece * (MAX_TRAJECTORY_BYTES // len(piece))
    assert redact(text) == text


def test_who_joins_an_organisation_makes_no_runs_there_by_accident(alice, bob):
    """Else others would read what bob's models write without his having named them."""
    theirs = make_run(alice).model.organisation
    join(theirs, bob, role="owner", by=alice)
    assert make_run(bob).model.organisation.slug == "bob"
    assert RunForm(user=bob).fields["organisation"].choices[0] == ("bob", "bob")
    # Where bob has made a run by name, there are two, and he is asked.
    make_run(bob, organisation=theirs.slug)
    with pytest.raises(Refusal) as refused:
        make_run(bob)
    assert refused.value.status == 409


def test_a_trajectory_loses_what_looks_like_a_credential(alice):
    run = make_run(alice)
    text = (
        "export OPENAI_API_KEY=abcdef1234567890\nAuthorization: Bearer abcdefghijk\nkey sk-proj-abcdefghijklmnop\nran"
    )
    [result] = add(run, line(trajectory=text)).results
    stored = result.attempt.trajectory.text
    assert "abcdef" not in stored
    assert stored.count("[redacted]") == 3
    assert stored.endswith("\nran")


def test_a_result_reaches_its_attempt_the_feed_and_no_persons_board(alice, node):
    run = make_run(alice)
    attempt = add(run, line()).results[0].attempt
    end(attempt, node, low=1.5)
    assert (attempt.state, attempt.verdict, attempt.score_low) == ("ended", "PASSED", 1.5)
    assert [event.kind for event in run.events.all()] == ["attempt.ended", "run.completed"]
    assert not Standing.objects.exists()
    assert not submission_queries.accepted().exists()
    assert not submission_queries.own_submissions(alice).exists()


def test_nobody_outside_sees_a_run_before_it_is_published(alice, bob, node):
    run = make_run(alice)
    attempt = add(run, line()).results[0].attempt
    end(attempt, node)
    with pytest.raises(Refusal) as hidden:
        queries.get_run(bob, run.pk)
    assert hidden.value.status == 404
    assert not access.visible_submissions(bob).exists()
    join(run.model.organisation, bob, by=alice)
    assert queries.get_run(bob, run.pk) == run
    assert access.may_read_source(bob, attempt.submission)


@pytest.mark.parametrize("sources", ["public", "private"])
def test_publishing_shows_the_run_and_its_sources_only_where_wanted(alice, bob, node, sources):
    run = make_run(alice)
    attempt = add(run, line()).results[0].attempt
    with pytest.raises(Refusal, match="not judged yet"):
        actions.publish_run(run, by=alice, sources=sources)
    end(attempt, node)
    published = actions.publish_run(run, by=alice, sources=sources)
    assert actions.publish_run(run, by=alice, sources=sources).published_at == published.published_at
    assert queries.get_run(bob, run.pk).is_published
    assert access.visible_submissions(bob).exists() == (sources == "public")
    with pytest.raises(Refusal, match="nothing can be added"):
        add(run, line(sample=1))


def test_an_attempt_is_judged_once_and_published_with_its_run(alice, node):
    run = make_run(alice)
    attempt = add(run, line()).results[0].attempt
    end(attempt, node)
    with pytest.raises(Refusal, match="attempt of a model's run"):
        submissions.queue_evaluation(attempt.submission, profile="cpux2", mode="ranked")
    with pytest.raises(Refusal, match="attempt of a model's run"):
        submissions.set_visibility(attempt.submission, visibility="public", by=alice)


def test_a_rejudge_adds_an_evaluation_and_the_attempt_shows_the_newest(alice, node):
    run = make_run(alice)
    attempt = add(run, line()).results[0].attempt
    end(attempt, node, verdict=Verdict.WRONG_RESULT)
    [again] = submissions.rejudge(Evaluation.objects.select_related("submission"))
    assert submissions.rejudge(Evaluation.objects.select_related("submission")) == []
    Attempt.objects.filter(pk=attempt.pk).update(evaluation=again)
    end(attempt, node, low=2.0)
    assert attempt.verdict == "PASSED"
    assert sorted(attempt.submission.evaluations.values_list("verdict", flat=True)) == ["PASSED", "WRONG_RESULT"]


def test_gpu_time_is_reserved_then_charged_and_our_own_faults_cost_nothing(alice, node, settings):
    settings.RESERVED_SECONDS = 30.0
    run = make_run(alice, profile="h200x8-nomc")
    one, two = (result.attempt for result in add(run, line(), line(sample=1)).results)
    organisation = run.model.organisation
    quota = quotas.quota_of(organisation, now=timezone.now())
    assert (quota.used_gpu_s, quota.reserved_gpu_s) == (0, 480.0)
    end(one, node, seconds=10)
    submissions.cancel_evaluation(two.evaluation, by=alice)
    quota = quotas.quota_of(organisation, now=timezone.now())
    assert (quota.used_gpu_s, quota.reserved_gpu_s) == (80.0, 0)
    later = timezone.now() + timedelta(days=31)
    assert quotas.quota_of(organisation, now=later).remaining_gpu_s == settings.GPU_SECONDS_PER_30_DAYS


def test_cancelling_what_runs_costs_what_it_took(alice):
    run = make_run(alice, profile="h200x8-nomc")
    [result] = add(run, line()).results
    evaluation = result.attempt.evaluation
    evaluation.state, evaluation.started_at = State.RUNNING, timezone.now() - timedelta(seconds=20)
    evaluation.save()
    submissions.cancel_evaluation(evaluation, by=alice)
    quota = quotas.quota_of(run.model.organisation, now=timezone.now())
    assert 160 <= quota.used_gpu_s < 800
    assert quota.reserved_gpu_s == 0


def test_a_used_up_quota_takes_what_fits_and_says_when_to_come_back(alice):
    organisation = default_organisation(alice, None)
    organisation.gpu_seconds = 500.0
    organisation.save()
    run = make_run(alice, profile="h200x8-nomc", organisation=organisation.slug)
    bulk = add(run, *(line(sample=number) for number in range(3)))
    assert statuses(bulk) == ["created", "created", "over_quota"]
    assert bulk.retry_after_s > 0
    with pytest.raises(Refusal) as refused:
        add(run, line(sample=2))
    assert (refused.value.status, refused.value.field) == (429, "quota")
    assert refused.value.retry_after_s > 0
    # What costs nothing is taken all the same.
    assert statuses(add(run, line(sample=2, source=""))) == ["created"]
    assert GpuUse.objects.count() == 2


def test_organisations_of_one_account_share_its_allowance(alice, bob, settings):
    settings.GPU_SECONDS_PER_30_DAYS = 500.0
    for slug in ("one", "two"):
        create_organisation(alice, slug=slug, name=slug)
    first, second = (make_run(alice, organisation=slug, profile="h200x8-nomc") for slug in ("one", "two"))
    assert statuses(add(first, line(), line(sample=1))) == ["created", "created"]
    with pytest.raises(Refusal, match="alice's organisations together") as refused:
        add(second, line())
    assert refused.value.status == 429
    assert quotas.quota_of(second.model.organisation, now=timezone.now()).remaining_gpu_s == 20
    assert statuses(add(make_run(bob, profile="h200x8-nomc"), line())) == ["created"]
    # An operator may grant one of them its own, which takes nothing from the others and nothing of theirs.
    Organisation.objects.filter(slug="two").update(gpu_seconds=240.0)
    assert statuses(add(second, line())) == ["created"]
    assert quotas.quota_of(first.model.organisation, now=timezone.now()).reserved_gpu_s == 480


def test_a_run_takes_no_more_attempts_than_one_can_have(alice, monkeypatch):
    monkeypatch.setattr(attempt_intake, "MAX_ATTEMPTS", 3)
    run = make_run(alice)
    assert statuses(add(run, line(), line(sample=1))) == ["created", "created"]
    bulk = add(run, line(), line(sample=2), line(sample=3))
    assert statuses(bulk) == ["repeated", "created", "refused"]
    assert "has 3 attempts" in bulk.results[2].refusal.message
    assert bulk.results[2].refusal.status == 409


def test_figures_count_the_last_ranked_step_of_each_sample(alice, node):
    run = make_run(alice, mode="agentic")
    wanted = [line(step=0, mode="check"), line(step=1), line("allgather", mode="check")]
    first, last, _ = (result.attempt for result in add(run, *wanted).results)
    end(first, node, verdict=Verdict.WRONG_RESULT)
    end(last, node, low=1.5)
    found = queries.run_figures(run)
    assert (found.attempted, found.solved, found.faster) == (2, 1, 1)
    assert found.correct_at_1.value == pytest.approx(1 / found.problems)
    assert found.geomean_speedup == pytest.approx(1.6)


def test_an_agents_progress_says_problems_score_and_cost_by_step(alice, alices, node):
    run = make_run(alice, mode="agentic")
    wanted = [
        line(step=0, mode="check", cost_usd=0.5),
        line(step=1, mode="benchmark", cost_usd=0.5),
        line(step=2, mode="benchmark"),
        line("allgather", step=0, mode="benchmark", cost_usd=0.25),
        line("allgather", step=2, mode="check"),
    ]
    checked, slow, fast, gather, failed = (result.attempt for result in add(run, *wanted).results)
    end(checked, node)
    for attempt, low in ((slow, 0.4), (fast, 1.9), (gather, 0.7)):
        end(attempt, node, low=low)
    end(failed, node, verdict=Verdict.WRONG_RESULT)
    scores = {attempt.key: attempt.score for attempt in run.attempts.exclude(score=None)}
    first, second, third = alices.get(f"/api/v1/runs/{run.pk}/progress/").json()
    assert [(row["solved"], row["faster"], row["attempts"]) for row in (first, second, third)] == [
        (2, 0, 2),
        (2, 0, 3),
        (2, 1, 5),
    ]
    assert [row["cost_usd"] for row in (first, second, third)] == [0.75, 1.25, 1.25]
    gathered, best = scores["allgather/0/0"], scores["allreduce/0/2"]
    assert first["speedup_solved"] == pytest.approx(gathered)
    assert second["speedup_solved"] == pytest.approx((gathered * scores["allreduce/0/1"]) ** 0.5)
    assert third["speedup_solved"] == pytest.approx((gathered * best) ** 0.5)
    # Whoever has no faster program keeps the reference.
    assert second["speedup_all"] == pytest.approx(1)
    assert third["speedup_all"] == pytest.approx(best ** (1 / len(registry.problems())))


def test_the_figures_of_many_runs_take_two_queries(alice, node, django_assert_num_queries):
    runs = [make_run(alice, version=str(number)) for number in range(3)]
    for run in runs:
        end(add(run, line()).results[0].attempt, node)
    with django_assert_num_queries(2):
        queries.figures_of(runs)


def test_a_rejudge_renews_the_figures_of_a_published_run(alice, node):
    run = make_run(alice)
    attempt = add(run, line()).results[0].attempt
    end(attempt, node, verdict=Verdict.WRONG_RESULT)
    actions.publish_run(run, by=alice, sources="public")
    [row] = queries.model_board("cpux2")
    assert row.figures.solved == 0
    [again] = submissions.rejudge(Evaluation.objects.select_related("submission"))
    Attempt.objects.filter(pk=attempt.pk).update(evaluation=again)
    end(attempt, node)
    [row] = queries.model_board("cpux2")
    assert row.figures.solved == 1


def test_operators_keep_their_reasons_and_quarantine_takes_a_run_off_the_board(alice, operator, node):
    run = make_run(alice)
    end(add(run, line()).results[0].attempt, node)
    actions.publish_run(run, by=alice, sources="public")
    assert [row.run for row in queries.model_board("cpux2")] == [run]
    with pytest.raises(Refusal) as refused:
        actions.decide(run, kind="audited", reason="looked", by=alice)
    assert refused.value.status == 403
    actions.decide(run, kind="audited", reason="read all trajectories", by=operator)
    actions.decide(run, kind="quarantined", reason="two models share sources", by=operator)
    assert (run.verification, run.is_quarantined) == ("audited", True)
    assert actions.decide(run, kind="withdrawn", reason="no time", by=operator).run.verification == "judged_here"
    assert queries.model_board("cpux2") == []
    assert [decision.reason for decision in run.decisions.order_by("at")] == [
        "read all trajectories",
        "two models share sources",
        "no time",
    ]
