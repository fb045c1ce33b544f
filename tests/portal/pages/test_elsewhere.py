"""What other sites show of this one: feeds, citations."""

from xml.etree import ElementTree as ET

import pytest

from tests.portal.pages import scenes
from tests.portal.pages.test_leaderboards import stand

pytestmark = pytest.mark.django_db
ATOM = "{http://www.w3.org/2005/Atom}"


def test_pages_stay_out_of_frames(client):
    answer = client.get("/problems/allreduce/leaderboard/")
    assert answer["X-Frame-Options"] == "DENY"
    assert "frame-ancestors 'none'" in answer["Content-Security-Policy"]


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
