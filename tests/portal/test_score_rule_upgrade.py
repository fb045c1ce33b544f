"""A site with scores from before there was a second rule keeps them, as scores of the first."""

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from evaluator.contract import SCORE_RULE, Verdict
from portal.ranking import actions as ranking
from portal.ranking.models import Board, PersonStanding, Record, SizeStanding, Standing
from portal.submissions.models import Evaluation
from tests.portal.pages import scenes

pytestmark = pytest.mark.django_db(transaction=True)


def to(*targets: tuple[str, str]) -> None:
    """Bring the database to these migrations; to the newest ones without any."""
    executor = MigrationExecutor(connection)
    executor.migrate(list(targets) or executor.loader.graph.leaf_nodes())


def test_scores_from_before_are_scores_of_the_first_rule():
    alice, node = scenes.person("alice"), scenes.node()
    passed = scenes.judged(alice, node, rule=SCORE_RULE).evaluations.get()
    wrong = scenes.judged(alice, node, verdict=Verdict.WRONG_RESULT).evaluations.get()
    try:
        to(("ranking", "0006_size_times_of_the_catalogue"), ("submissions", "0004_asked_visibility"))
    finally:
        to()
    assert Evaluation.objects.get(pk=passed.pk).score_rule == 1
    assert Evaluation.objects.get(pk=wrong.pk).score_rule is None
    for derived in (Standing, SizeStanding, Board, Record):
        assert [row.score_rule for row in derived.objects.all()] == [1], derived
    ranking.rebuild_standings()
    assert Standing.objects.get().score_rule == 1
    assert not PersonStanding.objects.exists()
