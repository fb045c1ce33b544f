"""What must hold on every page: a strict content policy, no inline code, and errors without tracebacks."""

import re

import pytest
from django.urls import reverse

from portal.catalog.markdown import render
from portal.pages.errors import server_error
from problems import registry
from tests.portal.pages import scenes


@pytest.fixture
def addresses(alice, local):
    passed = scenes.judged(alice, local)
    waiting = scenes.submit(alice)
    return [
        "/",
        "/problems/",
        "/problems/allreduce/",
        "/problems/allreduce/submit/",
        "/problems/allreduce/leaderboard/",
        "/leaderboards/",
        "/roofline/",
        "/taxonomy/",
        "/nodes/",
        "/docs/",
        "/docs/judge/timing-and-score/",
        "/docs/adding-a-problem/",
        "/api/v1/",
        "/accounts/",
        "/accounts/password/",
        "/submissions/",
        reverse("submissions:detail", args=[passed.pk]),
        reverse("submissions:detail", args=[waiting.pk]),
        "/nowhere/",
    ]


def test_no_page_has_inline_style_or_script(as_alice, addresses):
    for address in addresses:
        page = as_alice.get(address).content.decode()
        scripts = re.findall(r"<script([^>]*)>([^<]*)", page)
        assert all("src=" in about or "application/json" in about for about, _ in scripts), address
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:", page), address


def test_every_page_carries_the_policy(as_alice, addresses):
    for address in addresses:
        policy = as_alice.get(address)["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy


def test_every_field_of_a_form_has_a_label(as_alice, addresses):
    for address in addresses:
        page = as_alice.get(address).content.decode()
        for element in re.findall(r"<(?:input|select|textarea)\b[^>]*>", page):
            if 'type="hidden"' in element or 'type="checkbox"' in element:
                continue
            identity = re.search(r'\bid="([^"]+)"', element)
            assert identity, element
            assert f'for="{identity[1]}"' in page, element


def test_identities_are_unique_on_each_page(as_alice, addresses):
    for address in addresses:
        identities = re.findall(r'\sid="([^"]+)"', as_alice.get(address).content.decode())
        assert sorted(set(identities)) == sorted(identities), address


def test_markdown_shows_html_as_text_and_links_no_scripts():
    html = render("<script>alert(1)</script> [x](javascript:alert(1)) <img onerror=x>")
    assert "<script" not in html
    assert "<img" not in html
    assert 'href="javascript' not in html


def test_mathematics_cannot_carry_markup():
    assert "<script" not in render(r"$\text{<script>alert(1)</script>}$")


def test_the_page_for_our_own_failures_needs_no_database(rf):
    response = server_error(rf.get("/"))
    assert response.status_code == 500
    assert b"The fault is ours" in response.content


def test_a_request_that_is_too_large_is_a_413(as_alice, settings):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
    response = as_alice.post("/problems/allreduce/submit/", {"source": "x" * 2000})
    assert response.status_code == 413
    assert b"at most 512 KB" in response.content


def test_every_statement_renders_all_of_its_mathematics():
    for problem in registry.problems():
        html = render(registry.statement(problem.slug))
        assert not re.search(r'class="math (inline|block)">\s*<code>', html), problem.slug
