"""What other sites show of this one: pictures, feeds, citations."""

from datetime import date
from xml.etree import ElementTree as ET

import pytest

from evaluator.hardware import profiles
from portal.pages.embeds import card_of_problem
from portal.submissions.models import Evaluation
from tests.portal.pages import scenes
from tests.portal.pages.test_leaderboards import stand

pytestmark = pytest.mark.django_db
ATOM = "{http://www.w3.org/2005/Atom}"


def test_pages_stay_out_of_frames(client):
    answer = client.get("/problems/allreduce/leaderboard/")
    assert answer["X-Frame-Options"] == "DENY"
    assert "frame-ancestors 'none'" in answer["Content-Security-Policy"]


def test_shared_links_have_a_picture_with_the_figure(client, local):
    before = client.get("/cards/problems/allreduce.png").content
    stand(scenes.person("first"), local, low=1.2, high=1.3)
    board = client.get("/problems/allreduce/leaderboard/?profile=h200x8").content.decode()
    assert 'property="og:image" content="http://testserver/cards/problems/allreduce.png?profile=h200x8"' in board
    for path in ("/cards/problems/allreduce.png", "/cards/people/first.png", "/cards/roofline.png"):
        answer = client.get(path)
        assert answer["Content-Type"] == "image/png"
        assert answer.content[16:24] == (1200).to_bytes(4) + (630).to_bytes(4)
        assert answer.content != before


def test_pictures_say_what_was_recorded_elsewhere(client, local):
    stand(scenes.person("first"), local, low=1.2, high=1.3)
    Evaluation.objects.update(recorded_on=date(2026, 11, 23), recorded_where="2 H200")
    assert card_of_problem("allreduce", profiles.get("h200x8")).caption.endswith(
        ", all sizes, interval 1.20 to 1.30, recorded on 23 November 2026, 2 H200"
    )


def test_problem_board_and_person_have_feeds(client, local):
    for name, low in (("first", 1.0), ("better", 1.2)):
        stand(scenes.person(name), local, low=low, high=low + 0.1)

    def titles(path):
        feed = ET.fromstring(client.get(path).content)
        return [entry.findtext(f"{ATOM}title") for entry in feed.findall(f"{ATOM}entry")]

    records = titles("/feeds/problems/allreduce.atom")
    assert [title.endswith(("by better", "by first")) for title in records] == [True, True]
    assert titles("/feeds/problems/allreduce/h200x8.atom") == records
    assert titles("/feeds/problems/allreduce/h100x8.atom") == []
    assert [title.split(":")[0] for title in titles("/feeds/people/better.atom")] == ["All-reduce (sum) of one matrix"]


@pytest.mark.parametrize(
    "path",
    [
        "/cards/problems/no_such.png",
        "/cards/problems/allreduce.png?profile=x",
        "/cards/roofline.png?profile=cpux2",
        "/cards/people/nobody.png",
        "/feeds/problems/allreduce/x.atom",
        "/feeds/people/nobody.atom",
    ],
)
def test_what_is_not_there_is_a_404(client, path):
    assert client.get(path).status_code == 404


def test_the_docs_say_how_to_cite_the_data(client):
    page = client.get("/docs/").content.decode()
    assert "@misc{parallelkernelbench_data_" in page
    assert page.count("\\url{http") == 1
