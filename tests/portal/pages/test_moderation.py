"""Flags and quarantine: off the boards at once and everywhere, the page and the reason stay, and lifted again."""

import re

import pytest
from django.urls import reverse
from django.utils import timezone

from evaluator.contract import Verdict
from portal.core.errors import Refusal
from portal.exports.tables import TABLES
from portal.ranking import queries as ranking
from portal.ranking.actions import rebuild_standings
from portal.ranking.models import Board, PersonStanding, Standing
from portal.submissions import actions
from portal.submissions.actions.moderate import FLAGS_PER_DAY
from portal.submissions.models import Evaluation, Flag, Quarantine, State
from tests.portal.factories import bundle, delivery_of, evaluation_of, submit

pytestmark = pytest.mark.django_db
PROFILE = "h100x4"
REASON = "It returns what an earlier call computed."


def entry(author, node, *, low, files=None, **changes):
    """A public submission of `author` that passed with this lower end."""
    submission = submit(author, profile=PROFILE, visibility="public", files=files or bundle(), **changes)
    judge(evaluation_of(submission), node, low=low)
    return submission


def judge(evaluation, node, *, verdict=Verdict.PASSED, **report):
    now = timezone.now()  # each ends after the one before
    Evaluation.objects.filter(pk=evaluation.pk).update(
        state=State.RUNNING, lease=f"lease-{evaluation.pk}", node=node, slot_index=0, started_at=now
    )
    assert actions.record_delivery(delivery_of(evaluation, verdict=verdict, **report), now)


def names():
    return [(row.place, row.author) for row in ranking.board("allreduce", profile=PROFILE)]


def records():
    return [
        (record.author.username, record.previous_low) for record in ranking.records_of("allreduce", profile=PROFILE)
    ]


@pytest.fixture
def operator(operator):
    """One who may do everything in the admin."""
    operator.is_superuser = True
    operator.save()
    return operator


@pytest.fixture
def carol(django_user_model):
    return django_user_model.objects.create_user("carol", password="a long pass phrase")


@pytest.fixture
def cheat(alice, bob, carol, node):
    """alice leads with a cheat, set before bob and carol came; each of them would have had the record."""
    first = entry(alice, node, low=5.0)
    entry(bob, node, low=2.0)
    entry(carol, node, low=3.0)
    return first


def test_a_rejudge_that_finds_wrong_outputs_revokes_the_pass_and_says_why(alice, bob, node, operator, client):
    cheat, _ = entry(bob, node, low=3.0), entry(alice, node, low=2.0)
    for verdict, place in ((Verdict.TIMEOUT, 1), (Verdict.WRONG_RESULT, None)):
        (again,) = actions.rejudge(cheat.evaluations.all())
        judge(again, node, verdict=verdict)
        assert {author: place for place, author in names()}.get("bob") == place
    client.force_login(bob)
    for url in (reverse("ranking:board", args=["allreduce"]) + f"?profile={PROFILE}", f"/submissions/{cheat.pk}/"):
        reason = f"Judged again on {PROFILE}, it did not pass. Wrong result: the verdict is WRONG_RESULT"
        assert reason in client.get(url).content.decode()
    actions.lift_quarantine(cheat, reason="The finding was ours.", by=operator)
    assert names() == [(1, "bob"), (2, "alice")]


def test_places_records_and_people_move_up_and_back_again(cheat, operator, alice):
    before = (names(), records(), sorted(PersonStanding.objects.values_list("author__username", "faster")))
    assert before[1] == [("alice", None)]
    actions.quarantine(cheat, reason=REASON, by=operator)
    assert names() == [(1, "carol"), (2, "bob")]
    assert records() == [("bob", None), ("carol", 2.0)]
    assert Board.objects.get().entries == 2
    assert Board.objects.get().record_low == 3.0
    assert not Standing.objects.filter(author=alice).exists()
    assert not PersonStanding.objects.filter(author=alice).exists()
    actions.lift_quarantine(cheat, reason="A mistake of ours.", by=operator)
    assert (names(), records(), sorted(PersonStanding.objects.values_list("author__username", "faster"))) == before


def test_the_authors_next_best_takes_its_place(alice, bob, node, operator):
    second_best = entry(alice, node, low=2.0)
    cheat = entry(alice, node, low=5.0)
    entry(bob, node, low=1.5)
    actions.quarantine(cheat, reason=REASON, by=operator)
    assert Standing.objects.get(author=alice).evaluation.submission_id == second_best.pk
    assert names() == [(1, "alice"), (2, "bob")]


def test_nothing_public_ranks_it_and_its_page_says_why(cheat, operator, client, alice):
    url = reverse("submissions:detail", args=[cheat.pk])
    actions.quarantine(cheat, reason=REASON, by=operator)
    board = client.get(reverse("ranking:board", args=["allreduce"]) + f"?profile={PROFILE}").content.decode()
    ranked, off = board.split('id="quarantined"')
    assert str(cheat.pk) not in ranked
    assert REASON in off
    assert str(cheat.pk) in off
    answer = client.get(f"/api/v1/problems/allreduce/leaderboard/?profile={PROFILE}").json()
    assert [row["author"] for row in answer["entries"]] == ["carol", "bob"]
    assert [(one["author"], one["reason"]) for one in answer["quarantined"]] == [("alice", REASON)]
    assert "alice" not in client.get("/feeds/records.atom").content.decode()
    page = client.get(url).content.decode()
    assert REASON in page
    assert "In quarantine" in page
    told = client.get(f"/api/v1/submissions/{cheat.pk}/").json()["quarantine"]
    assert told["reason"] == REASON
    assert [row.author.username for row in TABLES["leaderboards"].entries()] == ["carol", "bob"]
    names = [column.name for column in TABLES["evaluations"].columns]
    rows = [dict(zip(names, row, strict=True)) for row in TABLES["evaluations"].rows()]
    assert [row["quarantine_reason"] for row in rows if row["submission"] == str(cheat.pk)] == [REASON]


def test_the_person_page_knows_no_place_of_it(cheat, operator, client):
    actions.quarantine(cheat, reason=REASON, by=operator)
    person = client.get(reverse("ranking:person", args=["alice"])).content.decode()
    assert REASON in person.split('id="quarantined"')[1]


def test_what_ends_later_or_is_derived_anew_stays_off(cheat, operator, node):
    again = actions.rejudge(cheat.evaluations.all(), reason="A look at it.")[0]
    actions.quarantine(cheat, reason=REASON, by=operator)
    judge(again, node, low=9.0)
    rebuild_standings()
    assert names() == [(1, "carol"), (2, "bob")]
    assert records() == [("bob", None), ("carol", 2.0)]


def test_the_same_source_is_refused_with_the_reason(cheat, operator, alice):
    actions.quarantine(cheat, reason=REASON, by=operator)
    with pytest.raises(Refusal, match="returns what an earlier call computed") as caught:
        submit(alice, profile=PROFILE, files=cheat.source.files)
    assert caught.value.status == 403
    with pytest.raises(Refusal, match="in quarantine"):
        actions.queue_evaluation(cheat, profile=PROFILE, mode="ranked")


def test_its_author_sees_it_in_the_list_of_their_own(cheat, operator, alice, client):
    client.force_login(alice)
    own = reverse("submissions:mine")
    assert "in quarantine" not in client.get(own).content.decode()
    actions.quarantine(cheat, reason=REASON, by=operator)
    assert "in quarantine" in client.get(own).content.decode()


def test_its_author_cannot_hide_the_evidence(cheat, operator, alice, client):
    actions.quarantine(cheat, reason=REASON, by=operator)
    with pytest.raises(Refusal, match="its visibility cannot change"):
        actions.set_visibility(cheat, visibility="private", by=alice)
    assert client.get(reverse("submissions:detail", args=[cheat.pk])).status_code == 200


def test_twice_without_reason_or_by_no_operator_is_refused(cheat, operator, bob):
    for reason, by, status in ((" ", operator, 422), (REASON, bob, 403)):
        with pytest.raises(Refusal) as caught:
            actions.quarantine(cheat, reason=reason, by=by)
        assert caught.value.status == status
    actions.quarantine(cheat, reason=REASON, by=operator)
    with pytest.raises(Refusal) as caught:
        actions.quarantine(cheat, reason=REASON, by=operator)
    assert caught.value.status == 409
    actions.lift_quarantine(cheat, reason="Lifted.", by=operator)
    with pytest.raises(Refusal) as caught:
        actions.lift_quarantine(cheat, reason="Lifted.", by=operator)
    assert caught.value.status == 409
    assert Quarantine.objects.count() == 1


def test_closing_an_account_recomputes_records_and_opening_it_too(cheat, alice):
    alice.is_active = False
    alice.save()
    assert records() == [("bob", None), ("carol", 2.0)]
    alice.is_active = True
    alice.save()
    assert records() == [("alice", None)]


# Flags


def test_a_reader_flags_an_entry_and_the_operators_see_it(cheat, bob, operator, client):
    client.force_login(bob)
    form = reverse("submissions:flag", args=[cheat.pk])
    assert "Flag this entry" in client.get(reverse("submissions:detail", args=[cheat.pk])).content.decode()
    assert client.post(form, {"reason": "It caches."}).status_code == 302
    assert "Your flag was sent" in client.get(reverse("submissions:detail", args=[cheat.pk])).content.decode()
    client.force_login(operator)
    assert "Open flags</a>: 1</li>" in client.get(reverse("admin:index")).content.decode()
    listed = client.get(reverse("admin:submissions_flag_changelist")).content.decode()
    assert "It caches." in listed
    answer = client.post(
        reverse("admin:submissions_flag_changelist"),
        {"action": "quarantine", "_selected_action": [Flag.objects.get().pk], "confirmed": "yes", "reason": REASON},
    )
    assert answer.status_code == 302
    assert names() == [(1, "carol"), (2, "bob")]
    assert Flag.objects.get().resolved_by == operator


def test_an_entry_whose_source_is_private_is_flagged_from_its_page(cheat, alice, bob, client):
    actions.set_visibility(cheat, visibility="private", by=alice)
    client.force_login(bob)
    form = reverse("submissions:flag", args=[cheat.pk])
    board, entry = reverse("ranking:board", args=["allreduce"]), reverse("submissions:detail", args=[cheat.pk])
    assert entry in client.get(board, {"profile": PROFILE}).content.decode()
    assert form in client.get(entry).content.decode()
    page = client.get(form).content.decode()
    assert "An entry of alice for" in page
    assert "def solution" not in page
    assert client.post(form, {"reason": "It caches."})["Location"] == board
    assert "Your flag was sent" in client.get(form).content.decode()
    assert 'id="file-1"' not in client.get(entry).content.decode()


def test_flags_are_limited_and_never_of_ones_own_or_of_what_one_may_not_see(cheat, alice, bob, client):
    for by, submission, status in ((alice, cheat, 409), (bob, submit(alice), 404)):
        client.force_login(by)
        assert client.post(reverse("submissions:flag", args=[submission.pk]), {"reason": "x"}).status_code == status
    client.logout()
    assert "sign-in" in client.post(reverse("submissions:flag", args=[cheat.pk]), {"reason": "x"})["Location"]
    actions.flag(cheat, reason="once", by=bob)
    with pytest.raises(Refusal, match="already"):
        actions.flag(cheat, reason="twice", by=bob)
    Flag.objects.all().delete()
    Flag.objects.bulk_create(
        Flag(submission=submit(alice, mode="check"), by=bob, reason="spam") for _ in range(FLAGS_PER_DAY)
    )
    with pytest.raises(Refusal) as caught:
        actions.flag(cheat, reason="one more", by=bob)
    assert caught.value.status == 429
    assert 23 * 3600 < caught.value.retry_after_s <= 24 * 3600 + 1


# The admin


def test_the_admin_lists_show_author_problem_and_verdict_and_find_them(cheat, operator, client, bob):
    client.force_login(operator)
    for model, words in (("submission", ("alice", "allreduce", "PASSED")), ("evaluation", ("alice", "allreduce"))):
        address = reverse(f"admin:submissions_{model}_changelist")
        for query in ({}, {"q": "ali"}, {"q": str(cheat.pk)}, {"q": "allreduce"}, {"problem": "allreduce"}):
            page = client.get(address, query)
            assert page.status_code == 200
            assert all(word in page.content.decode() for word in words)
        assert "alice</a>" not in client.get(address, {"q": "nobody"}).content.decode()
    assert client.get(reverse("admin:submissions_report_changelist"), {"q": "alice"}).status_code == 200


def test_the_admin_lists_ask_as_much_for_ten_rows_as_for_one(
    cheat, operator, client, django_assert_max_num_queries, bob
):
    client.force_login(operator)
    for _ in range(9):
        submit(bob)
    actions.flag(cheat, reason=REASON, by=bob)
    actions.quarantine(cheat, reason=REASON, by=operator)
    for model in ("submission", "evaluation", "report", "flag", "quarantine", "gpuuse"):
        with django_assert_max_num_queries(9):
            assert client.get(reverse(f"admin:submissions_{model}_changelist")).status_code == 200


def test_every_name_in_the_admin_has_its_plural(operator, client):
    client.force_login(operator)
    page = client.get("/admin/").content.decode()
    for name in ("Problem switches", "Profile states", "GPU use", "Quarantines", "Flags", "Allowance limits"):
        assert name in page


def test_operators_reach_the_admin_from_every_page_and_fold_its_long_filters(operator, alice, client):
    client.force_login(alice)
    assert ">Operate</a>" not in client.get("/problems/").content.decode()
    client.force_login(operator)
    assert '<a href="/admin/">Operate</a>' in client.get("/problems/").content.decode()
    page = client.get("/admin/submissions/evaluation/").content.decode()
    assert '<details data-filter-title="problem">' in page
    assert '<details data-filter-title="state" open>' in page
    chosen = client.get("/admin/submissions/evaluation/", {"problem": "allreduce"}).content.decode()
    assert '<details data-filter-title="problem" open>' in chosen
    limit = client.get("/admin/submissions/allowancelimit/add/").content.decode()
    assert re.findall(r'<select name="(\w+)"[^>]*class="admin-autocomplete"', limit) == ["account", "organisation"]
