"""Every state move of an evaluation, made twice by two who have read the same row: one of them moves it."""

import pytest

from evaluator.contract import Progress, Stage, Verdict
from portal.submissions import lifecycle
from portal.submissions.hooks import evaluation_ended
from portal.submissions.models import Evaluation, State
from tests.portal.factories import evaluation_of, submit

pytestmark = pytest.mark.django_db
LEASE = "the lease that both have read"


def assign(evaluation, node, now):
    return lifecycle.assign(evaluation, node, 0, state=State.LEASED, now=now)


def build(evaluation, node, now):
    return lifecycle.assign(evaluation, node, 0, state=State.BUILDING, now=now)


def take_back(evaluation, _node, _now):
    before = Evaluation(pk=evaluation.pk, state=State.QUEUED)
    return lifecycle.take_back(before, LEASE)


def begin_offline(evaluation, node, now):
    return lifecycle.begin_offline(evaluation, node, attempt=1, started_at=now)


def note_built(_evaluation, node, now):
    return lifecycle.note_built(node, [LEASE], now)


def queue_again(evaluation, _node, _now):
    return lifecycle.queue_again(evaluation, attempt=evaluation.attempt + 1, detail="Its node was lost.")


def release_node(_evaluation, node, _now):
    return lifecycle.release_node(node)


def release_built(_evaluation, _node, _now):
    return lifecycle.release_built(Evaluation.objects.all())


def follow_revision(evaluation, _node, _now):
    return lifecycle.follow_revision(evaluation, "0123456789abcdef")


def finish(evaluation, _node, now):
    return lifecycle.finish(evaluation, now=now, verdict=Verdict.PASSED.value)


def end_unserved(evaluation, _node, now):
    return lifecycle.end_unserved(evaluation, now=now, message="No node.")


def cancel(evaluation, _node, now):
    return lifecycle.cancel(evaluation, now=now)


@pytest.fixture
def read_twice(alice, node, now):
    """The row of an evaluation in a state, as two have read it."""

    def make(state):
        evaluation = evaluation_of(submit(alice))
        if state in State.under_lease():
            evaluation.lease, evaluation.lease_expires_at = LEASE, now
        if state != State.QUEUED:
            evaluation.node = node
        evaluation.state = state
        evaluation.save()
        return [Evaluation.objects.get(pk=evaluation.pk) for _ in range(2)]

    return make


_told = []


@evaluation_ended.receiver
def _tell(event):
    _told.append(event.state)


@pytest.fixture
def ends():
    """The evaluations whose end the apps above were told."""
    _told.clear()
    return _told


@pytest.mark.parametrize(
    "case",
    [
        (assign, State.QUEUED, State.LEASED),
        (assign, State.BUILT, State.LEASED),
        (build, State.QUEUED, State.BUILDING),
        (take_back, State.LEASED, State.QUEUED),
        (take_back, State.BUILDING, State.QUEUED),
        (begin_offline, State.QUEUED, State.RUNNING),
        (begin_offline, State.BUILT, State.RUNNING),
        (note_built, State.BUILDING, State.BUILT),
        *((queue_again, state, State.QUEUED) for state in State.under_lease()),
        *((release_node, state, State.QUEUED) for state in (*State.under_lease(), State.BUILT)),
        (release_built, State.BUILT, State.QUEUED),
        (follow_revision, State.QUEUED, State.QUEUED),
        (follow_revision, State.BUILT, State.QUEUED),
        *((finish, state, State.FINISHED) for state in State.under_lease()),
        (end_unserved, State.QUEUED, State.UNSERVED),
        *((cancel, state, State.CANCELLED) for state in State.unfinished()),
    ],
)
def test_of_two_who_make_the_same_move_one_wins(read_twice, ends, node, now, case):
    move, before, after = case
    rows = read_twice(before)
    assert [bool(move(row, node, now)) for row in rows] == [True, False]
    row = Evaluation.objects.get()
    assert row.state == after
    assert (row.lease is not None) == (after in State.under_lease())
    assert ends == ([after] if after in State.ended() else [])


@pytest.mark.parametrize("state", State.ended())
@pytest.mark.parametrize(
    "move", [assign, take_back, begin_offline, note_built, queue_again, release_node, finish, end_unserved, cancel]
)
def test_nothing_moves_what_has_ended(read_twice, node, now, move, state):
    row, _ = read_twice(state)
    if move is assign:
        row.state = State.QUEUED
    assert not move(row, node, now)
    assert Evaluation.objects.get().state == state


def test_a_sweep_that_read_the_row_before_its_lease_was_extended_does_not_move_it(read_twice, later):
    row, _ = read_twice(State.RUNNING)
    Evaluation.objects.update(lease_expires_at=later(60))
    assert not queue_again(row, None, None)
    assert not finish(row, None, later(1))


def test_what_its_node_has_begun_is_not_taken_back(read_twice):
    row, _ = read_twice(State.RUNNING)
    assert not take_back(row, None, None)


def test_the_first_word_of_a_judge_starts_the_clock_once(read_twice, now, later):
    row, _ = read_twice(State.LEASED)
    progress = Progress(evaluation_id=str(row.pk), lease=LEASE, stage=Stage.TIMING)
    assert lifecycle.note_progress(progress, now)
    assert lifecycle.note_progress(progress, later(5))
    row = Evaluation.objects.get()
    assert (row.state, row.started_at, row.stage_since) == (State.RUNNING, now, now)
