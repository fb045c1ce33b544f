"""Every published figure of three entries of two people, worked out by hand, wherever it is shown.

problem     alice               bob                 alone on the board
allreduce   1.3 [1.2, 1.4]      1.0 [0.9, 1.1]      alice first, significantly
allgather   1.05 [0.95, 1.15]   -                   solved, and not significantly faster
"""

import math
import re

import pytest

from portal.exports import tables
from portal.ranking.actions import rebuild_standings
from portal.submissions.models import Evaluation
from problems import registry
from tests.portal.pages import scenes

pytestmark = pytest.mark.django_db
PROFILE = "h200x8"
PROBLEMS = len(registry.problems())


@pytest.fixture(autouse=True)
def entries(alice, bob, local):
    for author, problem, low in ((alice, "allreduce", 1.2), (bob, "allreduce", 0.9), (alice, "allgather", 0.95)):
        evaluation = scenes.judged(author, local, problem=problem).evaluations.get()
        figures = {"score": low + 0.1, "score_low": low, "score_high": low + 0.2}
        Evaluation.objects.filter(pk=evaluation.pk).update(profile=PROFILE, **figures)
    rebuild_standings()


def text_of(page: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", page))


def read(client, address: str, **query) -> str:
    return client.get(address, {"profile": PROFILE, **query}).content.decode()


def test_the_board(client):
    page = read(client, "/problems/allreduce/leaderboard/")
    first, second = (text_of(row) for row in page.split("<tbody>")[1].split("</tr>")[:2])
    assert re.search(r"\b1\b.*alice.*1\.3×.*1\.20 to 1\.40", first)  # noqa: RUF001 - the multiplication sign
    assert re.search(r"\b2\b.*bob.*not distinguishable.*0\.90 to 1\.10", second)
    # 1.1 lies below 1.2, so the two differ significantly.
    assert "≈ above" not in second
    said = client.get(f"/api/v1/problems/allreduce/leaderboard/?profile={PROFILE}").json()["entries"]
    figures = [(row["place"], row["author"], row["score"], row["low"], row["high"]) for row in said]
    assert figures == [
        (1, "alice", pytest.approx(1.3), pytest.approx(1.2), pytest.approx(1.4)),
        (2, "bob", pytest.approx(1.0), pytest.approx(0.9), pytest.approx(1.1)),
    ]
    assert [row["overlaps_above"] for row in said] == [False, False]


def test_people(client):
    page = read(client, "/leaderboards/people/")
    alice, bob = (text_of(row) for row in page.split("<tbody>")[1].split("</tr>")[:2])
    mean = math.sqrt(1.3 * 1.05)
    assert re.search(rf"1 .*alice 1 2 {mean:.2f}×", alice)  # noqa: RUF001 - the multiplication sign is meant
    assert re.search(r"2 .*bob 0 1 1\.00×", bob)  # noqa: RUF001 - the multiplication sign is meant
    own = text_of(client.get("/leaderboards/people/alice/").content.decode())
    assert re.search(r"Best places 1\. .*Records reached ", own)
    assert f"{mean:.2f}×" in own  # noqa: RUF001 - the multiplication sign is meant


def test_records_and_what_is_open(client):
    # Nobody but alice was ever first: her entry was there before bob's, and allgather has hers alone.
    rows = [text_of(row) for row in read(client, "/leaderboards/records/").split("<tbody>")[1].split("</tr>")[:-1]]
    assert len(rows) == 2
    assert any("alice" in row and "1.3×" in row and "1.20 to 1.40" in row for row in rows)  # noqa: RUF001 - the multiplication sign is meant
    assert any("alice" in row and "not distinguishable" in row and "0.95 to 1.15" in row for row in rows)
    opened = text_of(read(client, "/leaderboards/open/"))
    assert f"{PROBLEMS - 2} / {PROBLEMS} solved by no person here" in opened
    assert f"1 / {PROBLEMS} solved by people, but not faster than the reference" in opened


def test_the_problems_and_what_is_solved(client):
    home = text_of(client.get("/").content.decode())
    # Two problems are solved; of allgather's interval a part lies below 1.
    assert f"solved here by people or models 2 of {PROBLEMS} faster than the reference 1 " in home
    listed = text_of(read(client, "/problems/"))
    assert "1.20 to 1.40" in listed
    assert "not distinguishable 0.95 to 1.15" in listed
    assert f"2 of {PROBLEMS} solved by people, 1 significantly faster than the reference" in listed


def test_the_export():
    table = tables.get_table("leaderboards")
    rows = [dict(zip([column.name for column in table.columns], row, strict=True)) for row in table.rows()]
    found = {(row["author"], row["problem"]): (row["score"], row["score_low"], row["score_high"]) for row in rows}
    assert found == {
        ("alice", "allreduce"): pytest.approx((1.3, 1.2, 1.4)),
        ("alice", "allgather"): pytest.approx((1.05, 0.95, 1.15)),
        ("bob", "allreduce"): pytest.approx((1.0, 0.9, 1.1)),
    }
