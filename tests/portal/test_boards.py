"""Who stands on a board, and in which order."""

from datetime import timedelta

import pytest

from evaluator.contract import SCORE_RULE
from portal.accounts.models import User
from portal.dispatcher.assign import dispatch_once
from portal.ranking import actions as ranking
from portal.ranking.models import Board, PersonStanding, Standing
from portal.ranking.queries import board, boards_of, latest_records, place_of
from portal.submissions import actions
from portal.submissions.models import Evaluation, Submission
from tests.portal.factories import delivery_of, evaluation_of, submit

pytestmark = pytest.mark.django_db


def keep(*_, **__):
    """Stands at the place of the broker."""


def enter(author, node, now, *, low, profile="h200x8-nomc", age_s=0, **report):
    """A ranked evaluation of `author` on `profile`, submitted `age_s` before now, whose score starts at `low`."""
    node.slots.update(state="free")
    submission = submit(author, mode=report.pop("mode", "ranked"))
    Submission.objects.filter(pk=submission.pk).update(created_at=now - timedelta(seconds=age_s))
    evaluation = evaluation_of(submission)
    dispatch_once(now, send=keep)
    Evaluation.objects.filter(pk=evaluation.pk).update(profile=profile)
    assert actions.record_delivery(delivery_of(evaluation, low=low, **report), now)
    return evaluation


def names(profile="h200x8-nomc", **filters):
    return [row.author for row in board("allreduce", profile=profile, **filters)]


def test_the_higher_lower_end_comes_first(alice, bob, node, now):
    enter(alice, node, now, low=1.0)
    enter(bob, node, now, low=2.0)
    first, second = board("allreduce", profile="h200x8-nomc")
    assert (first.place, first.author, first.low) == (1, "bob", 2.0)
    assert (second.place, second.author, second.low) == (2, "alice", 1.0)
    assert not second.overlaps_above


def test_a_place_names_the_next_the_leader_and_the_attempt_before(alice, bob, node, now):
    first = enter(alice, node, now, low=1.0, age_s=30)
    worse = enter(alice, node, now, low=0.5, age_s=20)
    other = User.objects.create_user("carol")
    enter(other, node, now, low=4.0)
    enter(bob, node, now, low=2.0)
    place = place_of(Evaluation.objects.get(pk=worse.pk))
    assert (place["own"].evaluation_id, place["number"], place["entries"]) == (first.pk, 3, 3)
    assert (place["above"].author, place["leader"].author) == ("bob", "carol")
    assert place["last"]["submission_id"] == first.submission_id
    at_the_top = place_of(Evaluation.objects.get(submission__author=other))
    assert [at_the_top[name] for name in ("number", "above", "leader", "last")] == [1, None, None, None]


@pytest.mark.parametrize("mode", ["check", "benchmark"])
def test_what_counts_on_no_board_has_no_place(alice, node, now, mode):
    enter(alice, node, now, low=1.0, age_s=30)
    evaluation = enter(alice, node, now, low=2.0, mode=mode)
    assert place_of(Evaluation.objects.get(pk=evaluation.pk)) is None


def test_overlapping_intervals_are_marked(alice, bob, node, now):
    enter(alice, node, now, low=1.0)
    enter(bob, node, now, low=1.1)
    assert [row.overlaps_above for row in board("allreduce", profile="h200x8-nomc")] == [False, True]


def test_when_equal_the_earlier_submission_comes_first(alice, bob, node, now):
    enter(alice, node, now, low=1.5, age_s=10)
    enter(bob, node, now, low=1.5, age_s=20)
    assert names() == ["bob", "alice"]


def test_an_author_stands_once_with_their_best(alice, node, now):
    enter(alice, node, now, low=1.0)
    best = enter(alice, node, now, low=2.0)
    enter(alice, node, now, low=1.5)
    [row] = board("allreduce", profile="h200x8-nomc")
    assert (row.low, row.evaluation_id) == (2.0, best.pk)
    assert Standing.objects.count() == 1


@pytest.mark.parametrize("mode", ["check", "benchmark"])
def test_only_ranked_evaluations_count(alice, node, now, mode):
    enter(alice, node, now, low=1.0, mode=mode)
    assert names() == []


def test_a_practice_board_orders_by_time_and_gives_no_place(alice, bob, node, now):
    enter(alice, node, now, low=2.0, profile="cpux2", age_s=10)
    enter(bob, node, now, low=1.0, profile="cpux2", age_s=20)
    rows = board("allreduce", profile="cpux2")
    assert [(row.place, row.author, row.overlaps_above) for row in rows] == [
        (None, "bob", False),
        (None, "alice", False),
    ]


def test_closed_accounts_are_left_out(alice, bob, node, now):
    enter(alice, node, now, low=2.0)
    enter(bob, node, now, low=1.0)
    User.objects.filter(pk=alice.pk).update(is_active=False)
    [row] = board("allreduce", profile="h200x8-nomc")
    assert (row.place, row.author) == (1, "bob")


def test_another_backend_has_a_standing_of_its_own(alice, node, now):
    evaluation = enter(alice, node, now, low=1.0)
    Submission.objects.filter(pk=evaluation.submission_id).update(backend="cuda")
    ranking.rebuild_standings()
    enter(alice, node, now, low=2.0)
    assert [row.backend for row in board("allreduce", profile="h200x8-nomc")] == ["pytorch", "cuda"]
    assert [row.low for row in board("allreduce", profile="h200x8-nomc", backend="cuda")] == [1.0]


def test_an_older_revision_is_an_archive_of_its_own(alice, node, now):
    evaluation = enter(alice, node, now, low=1.0)
    Evaluation.objects.filter(pk=evaluation.pk).update(problem_revision="0123456789abcdef")
    ranking.rebuild_standings()
    assert names() == []
    assert names(revision="0123456789abcdef") == ["alice"]


EARLIER = SCORE_RULE - 1


def test_a_score_by_another_rule_is_on_no_board_and_no_record(alice, bob, node, now):
    enter(alice, node, now, low=5.0, rule=EARLIER)
    enter(alice, node, now, low=1.0)
    enter(bob, node, now, low=5.0, rule=EARLIER)
    for _ in range(2):
        assert [(row.place, row.author, row.low) for row in board("allreduce", profile="h200x8-nomc")] == [
            (1, "alice", 1.0)
        ]
        [record] = latest_records()
        assert (record.author, record.previous_low, record.score_rule) == (alice, None, SCORE_RULE)
        assert Board.objects.get(score_rule=SCORE_RULE).record_low == 1.0
        assert [person.author for person in PersonStanding.objects.all()] == [alice]
        assert tuple(boards_of("allreduce")) == ("h200x8-nomc",)
        ranking.rebuild_standings()


def test_people_counted_under_another_rule_are_counted_anew(alice, node, now, monkeypatch):
    enter(alice, node, now, low=5.0)
    assert not ranking.is_rebuild_needed()
    monkeypatch.setattr(ranking, "SCORE_RULE", SCORE_RULE + 1)
    ranking.catalog_digest.cache_clear()
    assert ranking.is_rebuild_needed()
    ranking.rebuild_standings()
    assert not PersonStanding.objects.exists()
    ranking.catalog_digest.cache_clear()


def test_profiles_with_entries_are_named_in_their_order(alice, bob, node, now):
    enter(alice, node, now, low=1.0)
    enter(bob, node, now, low=1.0, profile="cpux2")
    assert tuple(boards_of("allreduce")) == ("cpux2", "h200x8-nomc")


def test_public_source_is_marked(alice, node, now):
    evaluation = enter(alice, node, now, low=1.0)
    assert not board("allreduce", profile="h200x8-nomc")[0].is_source_public
    actions.set_visibility(evaluation.submission, visibility="public", by=alice)
    assert board("allreduce", profile="h200x8-nomc")[0].is_source_public


@pytest.mark.parametrize("authors", [1, 3])
def test_a_board_takes_one_query(node, now, django_assert_num_queries, authors):
    for number in range(authors):
        enter(User.objects.create_user(f"author-{number}"), node, now, low=1.0 + number)
    with django_assert_num_queries(1):
        assert len(board("allreduce", profile="h200x8-nomc")) == authors
