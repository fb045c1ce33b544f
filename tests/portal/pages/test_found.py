"""Pages are found, by typing and by search engines, come compressed, and say how to cite them."""

import gzip
import re

import pytest

from problems import registry
from tests.portal.pages import scenes

pytestmark = pytest.mark.django_db


def suggestions(client, text: str) -> list[str]:
    page = client.get("/search/", {"q": text}, headers={"HX-Request": "true"}).content.decode()
    assert "<html" not in page
    return re.findall(r'href="([^"]+)"', page)


def test_words_that_are_typed_lead_to_the_problem_once(client):
    title = registry.get("ring_attention").title
    first, *others = suggestions(client, title[:12])
    assert first == "/problems/ring_attention/"
    assert "/problems/ring_attention/" not in others
    # A letter that is left out finds what is meant, and the page says so.
    assert "/problems/ring_attention/" in suggestions(client, "ring atention")
    assert "Found by the closest words" in client.get("/search/", {"q": "ring atention"}).content.decode()
    assert suggestions(client, "qqqqqq") == ["/search/?q=qqqqqq"]
    assert suggestions(client, "") == []


def test_search_engines_are_told_of_problems_and_public_entries_alone(client, alice, bob, local):
    public = scenes.judged(alice, local, visibility="public")
    private = scenes.judged(bob, local)
    listed = client.get("/sitemap.xml").content.decode()
    assert "<loc>http://testserver/problems/allreduce/</loc>" in listed
    assert f"/submissions/{public.pk}/" in listed
    assert str(private.pk) not in listed
    rules = client.get("/robots.txt").content.decode()
    assert "/sitemap.xml\n" in rules
    assert "Disallow: /submissions/\n" not in rules


def test_pages_come_compressed_to_whoever_can_read_them(client):
    plain = client.get("/problems/")
    packed = client.get("/problems/", headers={"Accept-Encoding": "gzip"})
    assert (plain.headers.get("Content-Encoding"), packed["Content-Encoding"]) == (None, "gzip")
    assert len(packed.content) < len(plain.content) / 3
    assert b"</html>" in gzip.decompress(packed.content)


def test_a_public_entry_says_how_to_cite_it(client, alice, local):
    submission = scenes.judged(alice, local, visibility="public")
    page = client.get(f"/submissions/{submission.pk}/").content.decode()
    assert f"@misc{{pkb_{str(submission.pk)[:8]}," in page
    assert f"\\url{{http://testserver/submissions/{submission.pk}/}}" in page
    for address in ("/problems/allreduce/", "/problems/allreduce/leaderboard/"):
        assert f"\\url{{http://testserver{address}}}" in client.get(address).content.decode()
