"""A board of ranks that share a GPU: correct entries in the order of submission, and no time or speedup anywhere."""

import re

import msgspec
import pytest
from django.utils import timezone

from evaluator.contract import Delivery
from portal.operations.audit import audit
from portal.ranking.actions import rebuild_standings
from portal.ranking.queries import board
from portal.submissions import actions
from tests.portal.pages import scenes

pytestmark = pytest.mark.django_db

SPEEDUP = re.compile(r"\d\.\d+\s*×|too noisy|\d\.\d{3} to \d")  # noqa: RUF001 - the multiplication sign is meant
PAGES = (
    "/problems/allreduce/leaderboard/?profile=gpu1r2",
    "/problems/allreduce/records/?profile=gpu1r2",
    "/problems/allreduce/scaling/",
    "/leaderboards/records/",
    "/problems/allreduce/",
    "/problems/?profile=gpu1r2",
    "/leaderboards/",
    "/leaderboards/people/?profile=gpu1r2",
    "/leaderboards/people/alice/",
    "/",
)


@pytest.fixture
def entries():
    node = scenes.node(profile="gpu1r2")
    return [
        scenes.judged(scenes.person(name), node, profile="gpu1r2", visibility="public") for name in ("alice", "bob")
    ]


@pytest.mark.parametrize("page", PAGES)
def test_no_page_shows_a_speedup(client, entries, page):
    answer = client.get(page)
    assert answer.status_code == 200
    assert not SPEEDUP.search(answer.content.decode())


def test_the_board_lists_entries_in_the_order_of_submission(client, entries):
    text = client.get(PAGES[0]).content.decode()
    assert text.index("alice") < text.index("bob")
    assert "Time of a call" not in text
    assert "Nothing is timed: all ranks share one GPU." in text


def test_a_report_shows_its_pass_and_no_time(client, entries):
    text = client.get(f"/submissions/{entries[0].pk}/").content.decode()
    assert "badge--good badge--large" in text
    assert not SPEEDUP.search(text)


def test_the_api_has_null_for_what_was_not_timed(client, entries):
    rows = client.get("/api/v1/problems/allreduce/leaderboard/?profile=gpu1r2").json()["entries"]
    assert [(row["author"], row["score"], row["low"], row["high"]) for row in rows] == [
        ("alice", None, None, None),
        ("bob", None, None, None),
    ]


def test_a_rebuild_and_the_audit_agree_with_the_board(entries):
    assert rebuild_standings() == 2
    assert board("allreduce", profile="gpu1r2")[0].author == "alice"
    boards = {"standings-were-judged", "accepted-stands", "boards-are-counted", "people-stand"}
    found = audit(timezone.now())
    assert {name: found[name] for name in boards} == dict.fromkeys(boards, ())


@pytest.mark.parametrize("profile", ["gpu1r2", "cpux2"])
def test_a_node_that_times_what_is_not_timed_or_leaves_times_out_is_refused(profile):
    node = scenes.node(profile=profile)
    submission = scenes.submit(scenes.person("carol"), profile=profile)
    evaluation = scenes.lease(submission, node)
    right = scenes.report(evaluation)
    is_timed = right.timing is not None
    wrong = msgspec.structs.replace(
        right, timing=None if is_timed else scenes.timing(sizes=("tiny", "base")), is_untimed=is_timed
    )
    delivery = Delivery(lease=evaluation.lease or "", node=node.name, report=wrong)
    with pytest.raises(Exception, match="its times are"):
        actions.record_delivery(delivery, timezone.now())
