"""A season from its definition to opened sources, and what people try in between."""

import json
import zipfile
from datetime import timedelta

import pytest
import yaml
from django.urls import reverse

from evaluator.contract import Verdict
from portal.accounts import organisations
from portal.accounts.models import User
from portal.accounts.organisations import create_organisation
from portal.core.errors import Refusal
from portal.exports.tables import TABLES
from portal.privacy.actions import archive_of
from portal.ranking.queries import board
from portal.seasons import actions, queries
from portal.seasons.models import Entry, Phase, Season, Team, definition_of
from portal.submissions import actions as submissions
from portal.submissions.models import Evaluation, State, Submission, Visibility
from tests.portal.factories import delivery_of, evaluation_of, submit

pytestmark = pytest.mark.django_db


def judge(evaluation, node, now, **report):
    """Have `node` judge it, by the site's own actions."""
    Evaluation.objects.filter(pk=evaluation.pk).update(
        state=State.RUNNING, lease=f"lease {evaluation.pk}", node=node, slot_index=None
    )
    evaluation.refresh_from_db()
    assert submissions.record_delivery(delivery_of(evaluation, **report), now)
    evaluation.refresh_from_db()
    return evaluation


def hand_in(author, node, now, *, problem="allreduce", profile="cpux2", **report):
    """A judged entry."""
    submission = submit(author, problem=problem, profile=profile)
    judge(evaluation_of(submission), node, now, **report)
    return submission


def teams(season):
    return [(row.team.name, row.line.solved) for row in queries.standings(season)]


def team_of(owner, *members, slug="acme"):
    """An organisation with members who were invited and have accepted."""
    organisation = create_organisation(owner, slug=slug, name=slug.title())
    for member in members:
        organisations.accept(
            organisations.invite(organisation, username=member.username, role="member", by=owner), by=member
        )
    return organisation


# What an operator says


FILE = """
slug: spring
title: Spring
profile: h200x8-nomc
problems: [allreduce, gemm_allreduce]
opens_at: 2027-03-01T00:00:00Z
closes_at: 2027-04-01T00:00:00Z
rules: |
  Be **kind**.
"""


@pytest.mark.parametrize(
    ("was", "becomes", "field"),
    [
        ("slug: spring", "slug: ../admin", "slug"),
        ("title: Spring", "titel: Spring", "titel"),
        ("profile: h200x8-nomc", "profile: h900", "profile"),
        ("gemm_allreduce]", "no_such]", "problems"),
        ("gemm_allreduce]", "allreduce]", "problems"),
        ("problems: [allreduce, gemm_allreduce]", "problems: []", "problems"),
        ("closes_at: 2027-04-01T00:00:00Z", "closes_at: 2027-02-01T00:00:00Z", "closes_at"),
        ("closes_at: 2027-04-01T00:00:00Z", "closes_at: 2027-04-01 00:00:00", "closes_at"),
        ("rules: |", "opened_sources: some\nrules: |", "opened_sources"),
        ("rules: |", "rejudged_per_problem: 0\nrules: |", "rejudged_per_problem"),
    ],
)
def test_what_is_wrong_with_a_definition_is_said_by_field(was, becomes, field):
    with pytest.raises(Refusal) as refused:
        definition_of(yaml.safe_load(FILE.replace(was, becomes)))
    assert field in (refused.value.field, str(refused.value)) or field in refused.value.message


def test_a_season_that_has_begun_keeps_its_problems_and_may_only_end_later(define, now, operator):
    season = define()
    values = {name: getattr(season, name) for name in ("slug", "title", "profile", "opens_at", "closes_at", "problems")}
    with pytest.raises(Refusal, match="problems cannot be changed"):
        actions.define(definition_of(values | {"problems": ["allreduce"]}), now=now, by=operator)
    with pytest.raises(Refusal, match="moved to a later time"):
        actions.define(definition_of(values | {"closes_at": now + timedelta(minutes=1)}), now=now, by=operator)
    moved = actions.define(definition_of(values | {"closes_at": now + timedelta(hours=2)}), now=now, by=operator)
    assert moved.announced_closes_at == season.closes_at
    with pytest.raises(Refusal, match="moved to a later time"):
        actions.define(
            definition_of(values | {"closes_at": now + timedelta(days=2)}), now=now + timedelta(hours=3), by=operator
        )


# Teams


def test_a_person_enters_alone_and_once(define, alice, now):
    season = define()
    actions.enter(season, alice, organisation=None, now=now)
    with pytest.raises(Refusal, match="in the team alice already"):
        actions.enter(season, alice, organisation=None, now=now)


def test_an_organisation_enters_by_its_owner_and_then_its_members_join(define, alice, bob, now):
    season, acme = define(), team_of(alice, bob)
    with pytest.raises(Refusal) as refused:
        actions.enter(season, bob, organisation=acme, now=now)
    assert refused.value.status == 403
    actions.enter(season, alice, organisation=acme, now=now)
    actions.enter(season, bob, organisation=acme, now=now)
    assert [row.members for row in queries.standings(season)] == [("alice", "bob")]


def test_nobody_joins_a_team_uninvited(define, alice, bob, now):
    season, acme = define(), team_of(alice)
    actions.enter(season, alice, organisation=acme, now=now)
    with pytest.raises(Refusal, match="not a member"):
        actions.enter(season, bob, organisation=acme, now=now)


def test_a_full_team_takes_nobody_more(define, alice, bob, now):
    season, acme = define(largest_team=1), team_of(alice, bob)
    actions.enter(season, alice, organisation=acme, now=now)
    with pytest.raises(Refusal, match="which is the limit"):
        actions.enter(season, bob, organisation=acme, now=now)


def test_nobody_changes_teams_after_an_entry_not_even_by_leaving_the_organisation(define, alice, bob, node, now):
    season, acme = define(), team_of(alice, bob)
    actions.enter(season, alice, organisation=acme, now=now)
    actions.enter(season, bob, organisation=acme, now=now)
    actions.leave(season, bob, now=now)
    actions.enter(season, bob, organisation=acme, now=now)
    hand_in(bob, node, now)
    with pytest.raises(Refusal, match="you cannot leave the team"):
        actions.leave(season, bob, now=now)
    organisations.remove_member(acme, username="bob", by=bob)
    with pytest.raises(Refusal, match="in the team Acme already"):
        actions.enter(season, bob, organisation=None, now=now)
    late = evaluation_of(submit(bob)).season_entries.get()
    assert "no longer belong" in late.refused


def test_nobody_enters_or_leaves_after_the_end(define, alice, bob, close, now):
    season = define()
    actions.enter(season, alice, organisation=None, now=now)
    close(season)
    with pytest.raises(Refusal, match="closed at"):
        actions.enter(season, bob, organisation=None, now=now)
    with pytest.raises(Refusal, match="closed at"):
        actions.leave(season, alice, now=now)


def test_a_team_that_all_have_left_is_gone(define, alice, now):
    season = define()
    actions.enter(season, alice, organisation=None, now=now)
    actions.leave(season, alice, now=now)
    assert not Team.objects.exists()


# Entries and the deadline


def test_a_ranked_submission_to_a_problem_of_the_season_is_an_entry_and_nothing_else_is(define, alice, bob, now):
    season = define()
    actions.enter(season, alice, organisation=None, now=now)
    entry = evaluation_of(submit(alice)).season_entries.get()
    assert (entry.team.name, entry.problem, entry.refused) == ("alice", "allreduce", "")
    submit(alice, mode="check")
    submit(alice, problem="alltoall")
    submit(alice, profile="cpux4")
    submit(bob)
    assert season.entries.count() == 1


def test_what_was_handed_in_before_the_end_counts_though_it_is_judged_after_it(define, alice, node, close, now):
    season = define()
    actions.enter(season, alice, organisation=None, now=now)
    evaluation = evaluation_of(submit(alice))
    Evaluation.objects.filter(pk=evaluation.pk).update(queued_at=now - timedelta(seconds=5))
    close(season)
    assert season.phase(now) is Phase.CLOSED
    assert queries.counts(season)["pending"] == 1
    judge(evaluation, node, now)
    assert teams(season) == [("alice", 1)]


def test_one_second_late_is_refused_for_the_season_and_stands_on_the_ordinary_board(  # noqa: PLR0917 - fixtures
    define, alice, node, close, now, client
):
    season = close(define(), seconds=1)
    Team.objects.create(season=season, person=alice, name="alice").members.create(season=season, user=alice)
    submission = hand_in(alice, node, now, low=3.0)
    entry = evaluation_of(submission).season_entries.get()
    assert "closed at" in entry.refused
    assert "too late" in entry.refused
    assert teams(season) == [("alice", 0)]
    assert [row.author for row in board("allreduce", profile="cpux2")] == ["alice"]
    client.force_login(alice)
    page = client.get(reverse("submissions:detail", args=[submission.pk])).content.decode()
    assert "Not counted for Winter." in page
    told = client.get(reverse("api:submission", args=[submission.pk])).json()["seasons"]
    assert [(each["counts"], each["message"]) for each in told] == [(False, entry.refused)]


def test_judging_an_old_submission_again_after_the_end_is_no_way_in(define, alice, node, close, now):
    season = define()
    actions.enter(season, alice, organisation=None, now=now)
    submission = submit(alice, mode="check")
    judge(evaluation_of(submission), node, now)
    close(season)
    again = submissions.queue_evaluation(submission, profile="cpux2", mode="ranked")
    assert again.season_entries.get().refused
    judge(again, node, now)
    assert teams(season) == [("alice", 0)]


def test_entries_of_a_closed_account_do_not_count(define, alice, node, now):
    season = define()
    actions.enter(season, alice, organisation=None, now=now)
    hand_in(alice, node, now)
    User.objects.filter(pk=alice.pk).update(is_active=False)
    assert teams(season) == [("alice", 0)]


def test_an_entry_in_quarantine_counts_for_nothing_until_that_is_lifted(define, alice, node, now, operator):
    season = define()
    actions.enter(season, alice, organisation=None, now=now)
    entry = hand_in(alice, node, now)
    submissions.quarantine(entry, reason="It caches.", by=operator)
    assert teams(season) == [("alice", 0)]
    submissions.lift_quarantine(entry, reason="It does not.", by=operator)
    assert teams(season) == [("alice", 1)]


# The rejudge and the end


@pytest.fixture
def ended(define, alice, bob, node, close, now):  # noqa: PLR0917 - fixtures
    """A season on GPUs with two leaders of all-reduce, closed."""
    season = define(profile="h200x8-nomc", rejudged_per_problem=1)
    for author, low in ((alice, 4.0), (bob, 2.0)):
        actions.enter(season, author, organisation=None, now=now)
        submission = submit(author, profile="h200x8-nomc")
        evaluation = evaluation_of(submission)
        Evaluation.objects.filter(pk=evaluation.pk).update(queued_at=now - timedelta(seconds=60))
        judge(evaluation, node, now, low=low)
    return close(season)


def score_of(season, name):
    (row,) = [row for row in queries.standings(season) if row.team.name == name]
    return round(row.line.score**2, 6)  # two problems, of which one is solved


def test_the_leaders_are_judged_again_and_count_by_that_alone(ended, node, now, later):
    (again,) = actions.rejudge_leaders(ended, now=now)
    ended.refresh_from_db()
    assert (again.submission.author.username, again.priority) == ("alice", -2)
    assert ended.phase(now) is Phase.REJUDGING
    with pytest.raises(Refusal, match="still being judged again"):
        actions.finish(ended, now=now)
    judge(again, node, now, low=1.5)
    assert score_of(ended, "alice") == 1.5
    assert score_of(ended, "bob") == 1.5, "what was not judged again counts no more than what was"
    assert actions.finish(ended, now=later(5)).phase(later(5)) is Phase.FINAL


def test_an_entry_that_does_not_pass_again_counts_as_not_solved(ended, node, now):
    (again,) = actions.rejudge_leaders(ended, now=now)
    judge(again, node, now, verdict=Verdict.NONDETERMINISTIC)
    ended.refresh_from_db()
    assert score_of(ended, "alice") == 1.0
    assert score_of(ended, "bob") == 1.0


def test_what_a_failure_of_ours_ends_is_judged_once_more(ended, node, now, operator, settings):
    settings.MAX_TRIES = 1
    (again,) = actions.rejudge_leaders(ended, now=now)
    judge(again, node, now, verdict=Verdict.JUDGE_FAILURE)
    with pytest.raises(Refusal, match="failure of ours"):
        actions.finish(ended, now=now)
    (third,) = actions.rejudge_leaders(ended, now=now)
    assert third.pk != again.pk
    judge(third, node, now, verdict=Verdict.JUDGE_FAILURE)
    actions.take(ended, "finish_despite_failures", by=operator, now=now)
    ended.refresh_from_db()
    assert ended.final_at == now


def test_a_finished_rejudge_is_not_repeated(ended, node, now):
    (again,) = actions.rejudge_leaders(ended, now=now)
    assert actions.rejudge_leaders(ended, now=now) == []
    judge(again, node, now, low=1.2)
    assert actions.rejudge_leaders(ended, now=now) == []


def test_nothing_is_judged_again_before_the_end_nor_while_entries_wait(define, alice, now, close):
    season = define()
    actions.enter(season, alice, organisation=None, now=now)
    with pytest.raises(Refusal, match="closes at"):
        actions.rejudge_leaders(season, now=now)
    evaluation = evaluation_of(submit(alice))
    Evaluation.objects.filter(pk=evaluation.pk).update(queued_at=now - timedelta(seconds=5))
    Entry.objects.update(refused="")
    close(season)
    with pytest.raises(Refusal, match="not judged yet"):
        actions.rejudge_leaders(season, now=now)


def test_entries_that_we_lost_are_judged_again_and_count(define, alice, node, now, close, settings):  # noqa: PLR0917 - fixtures
    settings.MAX_TRIES = 1
    season = define()
    actions.enter(season, alice, organisation=None, now=now)
    hand_in(alice, node, now, verdict=Verdict.JUDGE_FAILURE)
    close(season)
    with pytest.raises(Refusal, match="failure of ours"):
        actions.rejudge_leaders(season, now=now)
    (again,) = actions.judge_failed_again(season, now=now)
    judge(again, node, now)
    assert teams(season) == [("alice", 1)]


def test_who_runs_a_season_carries_it_to_its_end(ended, node, now, operator, client):
    client.force_login(operator)
    assert client.post("/seasons/winter/steps/", {"step": "rejudge"}).status_code == 302
    judge(Evaluation.objects.get(priority=-2), node, now)
    page = client.post("/seasons/winter/steps/", {"step": "finish"}, follow=True).content.decode()
    assert "The standings are final." in page
    assert client.post("/seasons/winter/steps/", {"step": "finish"}).status_code == 409


# Sources


def source_status(client, submission):
    return client.get(reverse("api:source", args=[submission.pk])).status_code


def test_nobody_reads_a_rivals_source_before_the_end_and_everybody_after_it(  # noqa: PLR0917 - fixtures
    ended, alice, bob, node, now, client
):
    submission = Submission.objects.get(author=alice)
    client.force_login(bob)
    page = client.get(reverse("seasons:season", args=["winter"])).content.decode()
    assert str(submission.pk) not in page
    assert source_status(client, submission) == 404
    assert client.get(reverse("submissions:detail", args=[submission.pk])).status_code == 404
    (again,) = actions.rejudge_leaders(ended, now=now)
    judge(again, node, now)
    assert source_status(client, submission) == 404
    assert client.get(reverse("seasons:history", args=["winter", "alice"])).status_code == 403
    actions.finish(ended, now=now)
    assert source_status(client, submission) == 200
    assert str(submission.pk) in client.get(reverse("seasons:season", args=["winter"])).content.decode()


def test_an_opened_source_stays_open(ended, alice, node, now):
    (again,) = actions.rejudge_leaders(ended, now=now)
    judge(again, node, now)
    actions.finish(ended, now=now)
    submission = Submission.objects.get(author=alice)
    with pytest.raises(Refusal, match="of the season Winter"):
        submissions.set_visibility(submission, visibility=Visibility.PRIVATE, by=alice)


def test_a_season_whose_rules_open_nothing_opens_nothing(ended, alice, node, now):
    Season.objects.update(opened_sources="none")
    (again,) = actions.rejudge_leaders(ended, now=now)
    judge(again, node, now)
    actions.finish(ended, now=now)
    assert Submission.objects.get(author=alice).visibility == Visibility.PRIVATE


def test_only_what_the_standings_rest_on_is_opened(define, alice, node, close, now):
    season = define(profile="h200x8-nomc")
    actions.enter(season, alice, organisation=None, now=now)
    kept, best = (hand_in(alice, node, now, profile="h200x8-nomc", low=low) for low in (1.0, 2.0))
    close(season)
    (again,) = actions.rejudge_leaders(season, now=now)
    judge(again, node, now)
    actions.finish(season, now=now)
    opened = {submission.pk: submission.visibility for submission in Submission.objects.all()}
    assert opened == {kept.pk: "private", best.pk: "public"}


# Pages, API


def test_the_public_data_hold_entries_of_open_boards_and_ones_own_archive_holds_all(define, alice, node, now, close):
    def exported():
        return [dict(zip(names, row, strict=True)) for row in TABLES["season_entries"].rows()]

    names = [column.name for column in TABLES["season_entries"].columns]
    season = define(hides_board=True)
    actions.enter(season, alice, organisation=None, now=now)
    hand_in(alice, node, now, low=1.5)
    assert exported() == []
    close(season)
    submit(alice)  # late, so it counts for nothing
    [row] = exported()
    assert (row["season"], row["author"], row["problem"]) == ("winter", "alice", "allreduce")
    assert (row["verdict"], row["score_low"], row["final_verdict"]) == ("PASSED", 1.5, None)
    Season.objects.update(access="code")
    assert exported() == []
    with zipfile.ZipFile(archive_of(alice)) as archive:
        mine = json.loads(archive.read("season_entries.json"))
        assert json.loads(archive.read("account.json"))["seasons"][0]["season__slug"] == "winter"
    assert [each["refused"] == "" for each in mine] == [True, False]


def test_the_page_counts_down_and_shows_rules_and_formula(define, client, now):
    define(profile="h200x8-nomc", rules="Be **kind**.")
    page = client.get("/seasons/winter/").content.decode()
    assert "data-countdown" in page
    assert "59\xa0minutes" in page
    assert "geometric mean" in page
    assert "<strong>kind</strong>" in page
    assert "Winter" in client.get("/seasons/").content.decode()
    assert client.get("/seasons/none/").status_code == 404


def test_entering_and_leaving_in_the_browser(define, alice, bob, client):
    season = define()
    team_of(bob)
    client.force_login(alice)
    assert client.post("/seasons/winter/enter/", {"organisation": "acme"}).status_code == 404
    client.post("/seasons/winter/enter/")
    assert season.members.get().user == alice
    assert "You take part as <strong>alice</strong>" in client.get("/seasons/winter/").content.decode()
    assert "entry of" in client.get("/problems/allreduce/submit/").content.decode()
    assert client.get("/seasons/winter/people/alice/").status_code == 200
    client.post("/seasons/winter/leave/")
    assert not season.members.exists()
    assert client.get("/seasons/winter/people/alice/").status_code == 404
    client.logout()
    assert client.post("/seasons/winter/enter/").status_code == 302
    assert client.get("/seasons/winter/enter/").status_code == 405


def test_the_api_reads_standings_without_private_ids(ended, client):
    told = client.get("/api/v1/seasons/winter/").json()
    assert (told["phase"], told["seconds_left"], told["entries"]) == ("closed", 0.0, 2)
    first = told["standings"][0]
    assert (first["team"], first["place"], first["results"][0]["counts"]) == ("alice", 1, 4.0)
    assert first["results"][0]["submission"] is None
    assert [each["slug"] for each in client.get("/api/v1/seasons/").json()] == ["winter"]


def test_the_number_of_queries_does_not_grow_with_entries(  # noqa: PLR0917 - fixtures
    define, alice, bob, node, now, client, django_assert_max_num_queries
):
    season = define()
    for author in (alice, bob):
        actions.enter(season, author, organisation=None, now=now)
        for _ in range(3):
            hand_in(author, node, now)
    with django_assert_max_num_queries(14):
        client.get("/seasons/winter/")
