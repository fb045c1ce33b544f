"""Seasons that owners of organisations open and run in the browser and over the API, and how people join them."""

import json
import re
from datetime import UTC, datetime, timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from evaluator.contract import Verdict
from portal.accounts import actions as accounts
from portal.accounts.models import User
from portal.dispatcher.assign import dispatch_once
from portal.nodes.models import Node, Slot
from portal.privacy.actions import Entries, delete_account
from portal.seasons import actions, queries
from portal.seasons.models import Phase, Season
from portal.submissions.actions import record_delivery
from portal.submissions.models import Evaluation, State, Visibility
from tests.portal.api.problem import assert_problem
from tests.portal.conftest import keep
from tests.portal.factories import delivery_of, submit
from tests.portal.seasons.test_seasons import hand_in, team_of

pytestmark = pytest.mark.django_db
SLUG = "/seasons/course/"
PEOPLE = "/api/v1/seasons/course/people/"
LIKE = ("sandbox", "backends", "revisions", "environment", "seen_at")


def people_as(client, kind: str) -> str:
    """People by problems as a program reads them."""
    return b"".join(client.get(PEOPLE, {"format": kind})).decode()


def form(**changes) -> dict[str, str]:
    """What an owner fills in: two problems in an order of their own, from the day after tomorrow on."""
    begin = timezone.now().replace(second=0, microsecond=0) + timedelta(days=2)
    values = {
        "title": "A course",
        "slug": "course",
        "organisation": "acme",
        "profile": "cpux2",
        "opens_at": f"{begin:%Y-%m-%dT%H:%M}",
        "closes_at": f"{begin + timedelta(days=1):%Y-%m-%dT%H:%M}",
        "time_zone": "UTC",
        "access": "code",
        "counts": "correct",
        "opened_sources": "none",
        "rejudged_per_problem": "2",
        "largest_team": "3",
        "rules": "Bring **tea**.",
        "place-allreduce": "2",
        "place-allgather": "1",
    }
    return values | changes


@pytest.fixture
def acme(alice):
    return team_of(alice)


@pytest.fixture
def course(acme, alice, client):
    """An open season of Acme's with a code, made in the browser by its owner, who stays signed in."""
    client.force_login(alice)
    assert client.post("/seasons/new/", form()).status_code == 302
    assert client.post(f"{SLUG}steps/", {"step": "open"}).status_code == 302
    return Season.objects.get()


def test_an_owner_sees_a_draft_that_nobody_else_sees_and_opens_it(acme, alice, bob, client):
    client.force_login(alice)
    assert client.post("/seasons/new/", form()).headers["Location"] == SLUG
    preview = client.get(SLUG).content.decode()
    assert "This is what participants will see" in preview
    assert ("until it opens" in preview, "no more entries" in preview, "Frozen" in preview) == (True, False, False)
    season = Season.objects.get()
    assert (season.problems, season.phase(timezone.now())) == (["allgather", "allreduce"], Phase.DRAFT)
    client.force_login(bob)
    assert client.get(SLUG).status_code == 404
    assert client.get("/seasons/join/", {"code": season.code}).status_code == 404
    assert client.post(f"{SLUG}steps/", {"step": "open"}).status_code == 404
    client.force_login(alice)
    client.post(f"{SLUG}steps/", {"step": "open"})
    season.refresh_from_db()
    assert season.phase(timezone.now()) is Phase.OPEN
    assert client.post(f"{SLUG}steps/", {"step": "delete"}).status_code == 409


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"time_zone": "Mars/Olympus"}, "There is no time zone &#x27;Mars/Olympus&#x27;"),
        (
            {"time_zone": "Europe/Berlin", "opens_at": "2027-03-28T02:30", "closes_at": "2027-04-01T00:00"},
            "may be ambiguous or it may not exist",
        ),
        ({"closes_at": "2026-01-01T00:00"}, "It closes before it opens."),
        ({"place-allreduce": "", "place-allgather": ""}, "The list of problems is empty."),
        ({"place-allreduce": "first"}, "The place of allreduce is &#x27;first&#x27;"),
        ({"slug": "new"}, "This address is the site&#x27;s own."),
        ({"slug": "Kurs-1"}, "Letters a to z, digits and hyphens are allowed"),
        ({"profile": "h200x8-nomc"}, "has no GPU time of its own"),
        ({"organisation": "others"}, "Select a valid choice"),
    ],
)
def test_a_form_says_what_is_wrong_at_its_field(acme, alice, client, changes, words):
    client.force_login(alice)
    page = client.post("/seasons/new/", form(**changes))
    assert page.status_code in (409, 422)
    assert words in page.content.decode()
    assert not Season.objects.exists()


def test_moments_are_those_of_the_named_time_zone(acme, alice, client):
    client.force_login(alice)
    moments = {"opens_at": "2027-03-01T09:00", "closes_at": "2027-07-01T09:00"}
    client.post("/seasons/new/", form(time_zone="Europe/Berlin", **moments))
    season = Season.objects.get()
    assert season.opens_at == datetime(2027, 3, 1, 8, tzinfo=UTC)
    assert season.closes_at == datetime(2027, 7, 1, 7, tzinfo=UTC)


def test_the_operator_sets_how_many_seasons_and_who_may_use_gpus(acme, alice, client, settings):
    client.force_login(alice)
    settings.SEASONS_PER_ORGANISATION = 1
    acme.gpu_seconds = 1000.0
    acme.save()
    assert client.post("/seasons/new/", form(profile="h200x8-nomc")).status_code == 302
    page = client.post("/seasons/new/", form(slug="second"))
    assert "this site allows 1 at a time" in page.content.decode()


def test_a_copy_keeps_the_problems_and_asks_for_name_and_time(course, client):
    page = client.get("/seasons/new/?copy=course").content.decode()
    assert 'name="place-allgather" value="1"' in page
    assert 'name="title" value="A course"' in page
    assert 'value="course"' not in page
    taken = client.post("/seasons/new/?copy=course", form(title="Over it"))
    assert (taken.status_code, "Another season has this short name" in taken.content.decode()) == (422, True)
    assert Season.objects.get().title == "A course"


def test_an_owner_extends_a_season_and_ends_it(course, client):
    later = course.closes_at + timedelta(days=3)
    shown = client.get(f"{SLUG}edit/").content.decode()
    assert "place-allreduce" not in shown
    client.post(f"{SLUG}edit/", form(closes_at=f"{later:%Y-%m-%dT%H:%M}", title="Longer", profile="cpux4"))
    moved = Season.objects.get()
    assert (moved.opens_at, moved.profile) == (course.opens_at, "cpux2")
    assert (moved.closes_at, moved.title, moved.announced_closes_at) == (later, "Longer", course.announced_closes_at)
    client.post(f"{SLUG}steps/", {"step": "end"})
    moved.refresh_from_db()
    assert moved.phase(timezone.now()) is Phase.CLOSED
    # A season lasts longer than the second in which this test opens and ends it.
    Season.objects.update(opens_at=moved.opens_at - timedelta(hours=1))
    client.post(f"{SLUG}edit/", form(title="Ended"))
    assert Season.objects.get().title == "Ended"


def test_who_has_the_code_makes_an_account_without_an_address_and_joins(course, client):
    client.logout()
    assert client.get(SLUG).status_code == 404
    page = client.get("/seasons/join/", {"code": course.code}, follow=True)
    told = page.content.decode()
    assert "only you and the site&#x27;s operators read the sources of your entries" in told
    assert "Standings" not in told
    inside = page.redirect_chain[-1][0]
    signed_up = client.post(
        "/accounts/sign-up/",
        {"username": "dora", "password": "correct horse battery", "repeated": "correct horse battery"}
        | {"next": inside},
    )
    assert signed_up.headers["Location"] == inside
    assert client.post(f"{SLUG}enter/").status_code == 404
    assert client.post(f"{SLUG}enter/", {"code": "wrong"}).status_code == 404
    assert client.post(f"{SLUG}enter/", {"code": course.code}).status_code == 302
    home = client.get(SLUG).content.decode()
    assert "Solved: <strong>0 of 2</strong>" in home
    assert "All-gather" in home.partition("Next:")[2][:300]


def test_a_season_by_link_is_listed_nowhere_and_read_with_its_link(course, bob, client):
    Season.objects.update(access="link")
    client.logout()
    assert "A course" not in client.get("/seasons/").content.decode()
    assert client.get("/api/v1/seasons/").json() == []
    assert "Standings" in client.get(SLUG, {"code": course.code}).content.decode()


def test_people_by_problems_with_attempts_and_a_history_for_who_runs_it(  # noqa: PLR0917 - fixtures
    course, alice, bob, node, client, close
):
    now = timezone.now()
    actions.enter(course, bob, organisation=None, now=now, code=course.code)
    hand_in(bob, node, now, verdict=Verdict.WRONG_RESULT)
    hand_in(bob, node, now)
    hand_in(bob, node, now, problem="allgather", verdict=Verdict.DEADLOCK)
    page = client.get(f"{SLUG}people/").content.decode()
    assert "2 entries" in page
    rows = [json.loads(line) for line in people_as(client, "jsonl").splitlines()]
    assert {row["problem"]: (row["outcome"], row["attempts"]) for row in rows} == {
        "allreduce": ("PASSED", 2),
        "allgather": ("DEADLOCK", 1),
    }
    assert people_as(client, "csv").startswith("person,team,problem,outcome")
    history = client.get(f"{SLUG}people/bob/?problem=allreduce").content.decode()
    assert (history.count(">All-reduce"), history.count(">All-gather")) == (2, 0)
    client.force_login(bob)
    assert client.get(f"{SLUG}people/bob/").status_code == 200
    assert client.get(f"{SLUG}people/alice/").status_code == 403
    Season.objects.update(hides_board=True)
    assert client.get(f"{SLUG}people/").status_code == 403
    assert_problem(client.get(PEOPLE), status=403, field="season")
    assert "is shown after the end" in client.get(SLUG).content.decode()
    close(course)
    assert client.get(f"{SLUG}people/").status_code == 200


def test_owners_read_what_was_entered_where_participants_were_told_so_before_joining(  # noqa: PLR0917 - fixtures
    acme, alice, bob, node, client, close
):
    client.force_login(alice)
    assert client.post("/seasons/new/", form(owners_read="on", access="everybody")).status_code == 302
    client.post(f"{SLUG}steps/", {"step": "publish"})
    course, told = Season.objects.get(), "only you, the owners of Acme and the site&#x27;s operators read the sources"
    client.force_login(bob)
    assert told in client.get(SLUG).content.decode()
    actions.enter(course, bob, organisation=None, now=timezone.now())
    client.force_login(alice)
    changed = client.post(f"{SLUG}edit/", form(access="everybody"))
    assert (changed.status_code, "owners_read cannot be changed" in changed.content.decode()) == (409, True)
    before = submit(bob)
    client.post(f"{SLUG}steps/", {"step": "open"})
    entered = hand_in(bob, node, timezone.now())
    close(course)
    late = submit(bob, problem="allgather")
    sources = [reverse("api:source", args=[each.pk]) for each in (before, entered, late)]
    assert [client.get(address).status_code for address in sources] == [404, 200, 404]
    history = client.get(f"{SLUG}people/bob/").content.decode()
    assert (str(entered.pk) in history, str(late.pk) in history) == (True, False)


def test_ranks_that_share_a_gpu_count_what_is_correct_and_the_first_time_at_that(acme, alice, bob, node, client):
    client.force_login(alice)
    wrong = client.post("/seasons/new/", form(profile="gpu1r2", counts="score"))
    assert (wrong.status_code, "gpu1r2 times nothing" in wrong.content.decode()) == (422, True)
    assert client.post("/seasons/new/", form(profile="gpu1r2", access="everybody")).status_code == 302
    client.post(f"{SLUG}steps/", {"step": "open"})
    season, now = Season.objects.get(), timezone.now()
    for who in (alice, bob):
        actions.enter(season, who, organisation=None, now=now)
    for who, verdict in ((bob, Verdict.PASSED), (alice, Verdict.WRONG_RESULT), (alice, Verdict.PASSED)):
        hand_in(who, node, now, profile="gpu1r2", verdict=verdict)
    hand_in(bob, node, now, profile="gpu1r2")
    assert [(row.team.name, row.line.solved) for row in queries.standings(season)] == [("bob", 1), ("alice", 1)]
    page = client.get(SLUG).content.decode()
    assert (page.count(">solved<"), "where nothing is timed" in page) == (2, True)
    standings = client.get(reverse("api:season", args=["course"])).json()["standings"]
    assert [(row["team"], row["results"][0]["score"]) for row in standings] == [("bob", None), ("alice", None)]


def test_sources_of_a_season_may_be_open_from_the_first_moment(course, alice, bob):
    Season.objects.update(opened_sources="at_once")
    actions.enter(course, bob, organisation=None, now=timezone.now(), code=course.code)
    submission = submit(bob)
    submission.refresh_from_db()
    assert submission.visibility == Visibility.PUBLIC


def test_a_problem_that_changes_while_a_season_runs_is_named(course, client):
    assert "has changed since" not in client.get(SLUG).content.decode()
    Season.objects.update(revisions={"allreduce": "an earlier one", "allgather": course.revisions["allgather"]})
    page = client.get(SLUG).content.decode()
    assert "allreduce has changed since the season was published." in page
    assert client.get("/api/v1/seasons/course/").json()["changed_problems"] == ["allreduce"]
    assert "allgather has changed" not in page


@pytest.mark.parametrize("entries", [Entries.ANONYMISE, Entries.REMOVE])
def test_who_deletes_the_account_is_named_nowhere_in_the_season(course, bob, node, client, entries):
    now = timezone.now()
    actions.enter(course, bob, organisation=None, now=now, code=course.code)
    hand_in(bob, node, now)
    delete_account(bob, entries=entries)
    page = client.get(SLUG).content.decode()
    assert ">bob" not in page
    gone = "1 participant&#x27;s account is closed" in page or "1 participant's account is closed" in page
    assert gone == (entries is Entries.REMOVE)
    assert "bob" not in people_as(client, "csv")


def test_a_program_opens_a_season_over_the_api_and_another_joins(acme, alice, bob, client):
    def bearer(user, scope):
        _, secret = accounts.create_token(user, name="s", scopes=[scope], lifetime_days=1)
        return {"HTTP_AUTHORIZATION": f"Bearer {secret}", "content_type": "application/json"}

    owner, solver = bearer(alice, "runs:write"), bearer(bob, "submit")
    now = timezone.now()
    wanted = {
        "slug": "api",
        "title": "By API",
        "organisation": "acme",
        "profile": "cpux2",
        "problems": ["allreduce"],
        "opens_at": now.isoformat(),
        "closes_at": (now + timedelta(hours=1)).isoformat(),
        "access": "code",
    }
    answer = client.post("/api/v1/seasons/", wanted, **owner)
    assert (answer.status_code, answer.json()["phase"]) == (200, "draft")
    code = answer.json()["code"]
    naive = client.post("/api/v1/seasons/", wanted | {"opens_at": "2027-01-01T00:00:00"}, **owner)
    [error] = assert_problem(naive, status=422, field="opens_at")["errors"]
    assert (error["value"], "timezone" in error["message"]) == ("2027-01-01T00:00:00", True)
    backwards = client.post("/api/v1/seasons/", wanted | {"closes_at": now.isoformat()}, **owner)
    [error] = assert_problem(backwards, status=422, field="closes_at")["errors"]
    assert error["message"] == "It closes before it opens."
    assert client.post("/api/v1/seasons/", wanted, **bearer(bob, "runs:write")).status_code == 404
    assert client.post("/api/v1/seasons/api/steps/", {"step": "open"}, **owner).status_code == 204
    longer = wanted | {"closes_at": (now + timedelta(hours=2)).isoformat()}
    assert client.post("/api/v1/seasons/", longer, **owner).json()["seconds_left"] > 3600
    assert client.post("/api/v1/seasons/api/join/", {"code": "no"}, **solver).status_code == 404
    assert client.post("/api/v1/seasons/api/join/", {"code": code}, **solver).status_code == 204
    told = client.get(f"/api/v1/seasons/api/?code={code}").json()
    assert (told["code"], [team["team"] for team in told["standings"]]) == (None, ["bob"])
    assert client.get("/api/v1/seasons/api/").status_code == 404


def test_two_hundred_who_hand_in_in_the_last_ten_minutes_all_count_and_take_turns(define, node, now, client, close):
    """Two nodes judge them, ten seconds each; three people send ten programs each, all others one."""
    beta = Node.objects.create(name="beta", key_digest="1" * 64, **{name: getattr(node, name) for name in LIKE})
    Slot.objects.create(node=beta, index=0, profile="cpux2", state="free")
    season = define(problems=["allreduce"])
    people = [User.objects.create_user(username=f"p{n}", password=None) for n in range(200)]
    for n, person in enumerate(people):
        actions.enter(season, person, organisation=None, now=now)
        for _ in range(10 if n < 3 else 1):
            submit(person)
    at = timezone.now()
    close(season, seconds=(now - at).total_seconds())
    late = submit(people[7])
    finished = []
    while True:
        Node.objects.update(seen_at=at)
        if not dispatch_once(at, send=keep):
            break
        at += timedelta(seconds=10)
        for evaluation in Evaluation.objects.filter(state=State.LEASED).select_related("submission__author", "node"):
            Evaluation.objects.filter(pk=evaluation.pk).update(started_at=at - timedelta(seconds=10))
            evaluation.refresh_from_db()
            assert record_delivery(delivery_of(evaluation, node=evaluation.node.name), at)
            finished.append(evaluation.submission.author.username)
        Slot.objects.update(state="free")
        if len(finished) == 30:
            page = client.get("/seasons/winter/").content.decode()
            assert re.search(r"197 not judged yet: about 1\d min until the last begins", page), page[2000:4000]
    assert len(finished) == 228
    assert len(set(finished[:200])) == 200
    found = queries.counts(season)
    assert [found[name] for name in ("entries", "pending", "failed")] == [227, 0, 0]
    assert "closed at" in queries.entries_from(late)[0].refused
    assert len([row for row in queries.standings(season) if row.line.solved]) == 200
