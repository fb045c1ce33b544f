"""A board that is ranked by speed, as its readers see it."""

from types import SimpleNamespace

from evaluator.hardware import profiles
from portal.pages import views
from portal.ranking.actions import rebuild_standings
from portal.submissions.models import Evaluation
from tests.portal.pages import scenes


def stand(author, at, *, low, high):
    """A standing on h200x8, moved there from a real evaluation."""
    evaluation = scenes.judged(author, at).evaluations.get()
    place = {"profile": "h200x8", "score_low": low, "score_high": high, "score": (low + high) / 2}
    Evaluation.objects.filter(pk=evaluation.pk).update(**place)
    rebuild_standings()


def test_places_go_by_the_lower_end_and_overlaps_are_marked(client, local):
    for name, low, high in (("wide", 1.0, 2.0), ("sure", 1.5, 1.6), ("slow", 0.5, 0.6)):
        stand(scenes.person(name), local, low=low, high=high)
    page = client.get("/problems/allreduce/leaderboard/", {"profile": "h200x8"}).content.decode()
    rows = page.split("<tbody>")[1].split("</tbody>")[0].split("</tr>")[:3]
    assert [name in row for name, row in zip(("sure", "wide", "slow"), rows, strict=True)] == [True] * 3
    assert ["≈ above" in row for row in rows] == [False, True, False]


def test_the_overview_shows_the_fastest_of_a_board_ranked_by_speed(client, local):
    stand(scenes.person("first"), local, low=0.8, high=0.9)
    stand(scenes.person("fastest"), local, low=1.8, high=1.9)
    page = client.get("/problems/").content.decode()
    assert "<td>fastest<" in page
    assert "<td>first<" not in page


def test_home_leads_with_factors_that_hold_against_a_warm_reference(client, local):
    stand(scenes.person("alice"), local, low=9.0, high=11.0)
    Evaluation.objects.update(other_speedups={"back_to_back": 6.04})
    page = client.get("/").content.decode()
    assert "warm 6.04" in page
    rows = [SimpleNamespace(score=score, warm=warm) for score, warm in ((10.0, 6.0), (7.7, 23.0), (6.5, None))]
    assert [row.score for row in sorted(rows, key=views.home_order(profiles.get("h200x8")))] == [7.7, 6.5, 10.0]
