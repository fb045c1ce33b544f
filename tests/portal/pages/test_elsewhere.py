"""What other sites show of this one: frames, citations."""

import pytest

pytestmark = pytest.mark.django_db


def test_pages_stay_out_of_frames(client):
    answer = client.get("/problems/allreduce/leaderboard/")
    assert answer["X-Frame-Options"] == "DENY"
    assert "frame-ancestors 'none'" in answer["Content-Security-Policy"]


def test_the_docs_say_how_to_cite_the_data(client):
    page = client.get("/docs/").content.decode()
    assert "@misc{parallelkernelbench_data_" in page
    assert page.count("\\url{http") == 1
