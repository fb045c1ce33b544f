"""The score of a season as arithmetic."""

import uuid
from datetime import UTC, datetime, timedelta

import pytest

from portal.seasons.scoring import Result, best_results, leaders, standings

DAY = datetime(2026, 1, 1, tzinfo=UTC)


def result(team, problem, low, *, minute=0, limit=None, by_speed=True):
    return Result(
        team=team,
        problem=problem,
        score=low + 0.1,
        low=low,
        high=low + 0.2,
        entered_at=DAY + timedelta(minutes=minute),
        entry=team * 100 + minute,
        submission_id=uuid.uuid4(),
        evaluation_id=uuid.uuid4(),
        author=f"author {team}",
        is_source_public=False,
        is_by_speed=by_speed,
        limit=limit,
    )


def places(results, *, teams=(1, 2), problems=("a", "b"), by_speed=True):
    lines = standings(teams, best_results(results), problems=problems, by_speed=by_speed)
    return [(line.team, round(line.score, 6), line.solved) for line in lines]


def test_the_score_is_the_geometric_mean_of_lower_ends():
    assert places([result(1, "a", 4.0), result(1, "b", 9.0)], teams=(1,)) == [(1, 6.0, 2)]


def test_what_is_not_solved_or_slower_counts_one():
    assert places([result(1, "a", 4.0)], teams=(1,)) == [(1, 2.0, 1)]
    assert places([result(1, "a", 4.0), result(1, "b", 0.25)], teams=(1,)) == [(1, 2.0, 2)]


def test_a_team_counts_its_best_entry_of_a_problem():
    assert places([result(1, "a", 4.0), result(1, "a", 16.0, minute=1), result(1, "a", 2.0, minute=2)])[0][1] == 4.0


def test_equal_scores_go_to_more_problems_solved_then_to_the_earlier():
    both = [result(1, "a", 0.5, minute=0), result(2, "a", 0.5, minute=1), result(2, "b", 0.5, minute=2)]
    assert [team for team, *_ in places(both)] == [2, 1]
    assert [team for team, *_ in places([result(1, "a", 4.0, minute=5), result(2, "b", 4.0, minute=4)])] == [2, 1]


def test_a_team_without_an_entry_comes_last_with_a_score_of_one():
    assert places([result(2, "a", 0.5)]) == [(2, 1.0, 1), (1, 1.0, 0)]


def test_on_a_practice_profile_what_was_solved_decides():
    found = [result(1, "a", 99.0), result(2, "a", 0.5, minute=1), result(2, "b", 0.5, minute=2)]
    assert [team for team, *_ in places(found, by_speed=False)] == [2, 1]


def test_where_correctness_counts_a_later_quicker_entry_costs_no_time():
    tries = [result(1, "a", 1.0, minute=0, by_speed=False), result(2, "a", 1.0, minute=1, by_speed=False)]
    tries.append(result(1, "a", 5.0, minute=2, by_speed=False))
    assert [team for team, *_ in places(tries, by_speed=False)] == [1, 2]
    assert not result(1, "a", 5.0, limit=1.0, by_speed=False).is_limited


def test_the_order_of_problems_decides_nothing():
    found = [result(1, "a", 3.0), result(1, "b", 7.0), result(2, "a", 7.0), result(2, "b", 3.0)]
    assert [team for team, *_ in places(found)] == [1, 2]
    assert [team for team, *_ in places(found, problems=("b", "a"))] == [1, 2]


def test_leaders_are_the_best_teams_not_the_best_entries():
    found = [result(1, "a", 9.0), result(1, "a", 8.0, minute=1), result(2, "a", 5.0), result(3, "a", 4.0)]
    assert [leader.team for leader in leaders(best_results(found), problem="a", count=2)] == [1, 2]


@pytest.mark.parametrize(("low", "limit", "counts"), [(5.0, 3.0, 3.0), (2.0, 3.0, 2.0), (5.0, 0.5, 1.0)])
def test_what_is_not_judged_again_counts_no_more_than_the_limit(low, limit, counts):
    held = result(1, "a", low, limit=limit)
    assert held.speed == counts
    assert held.is_limited is (counts < low)
