"""The boards beyond a problem's first page: paging, facets, people, records, scaling, what is open, feed, search."""

import html
import json
import re
from xml.etree import ElementTree as ET

import pytest
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from evaluator.contract import SCORE_RULE
from portal.accounts.models import User
from portal.ranking import published, queries, views
from portal.ranking.actions import is_rebuild_needed, rebuild_standings
from portal.ranking.models import Board, PersonStanding, Record, Standing
from portal.ranking.people import people_page
from portal.submissions.models import Evaluation
from problems import registry
from tests.portal.pages import scenes
from tests.portal.pages.test_board_order import stand
from tools.bench import demo_data as demo

INVENTED = 600
BOARD = "/problems/allreduce/leaderboard/"
PAGES = [
    "/leaderboards/",
    "/problems/",
    "/leaderboards/people/",
    "/leaderboards/records/",
    "/leaderboards/open/",
]
OTHERS = ["/leaderboards/published/", "/problems/allreduce/records/", "/problems/allreduce/scaling/", "/search/?q=all"]


def page(client, address, **query):
    response = client.get(address, query)
    assert response.status_code == 200, address
    return response.content.decode()


def link(text, rel):
    """Where the link of this kind leads."""
    return html.unescape(re.search(f'rel="{rel}" href="([^"]+)"', text)[1])


def rows_of(text):
    return text.split("<tbody>")[1].split("</tbody>")[0]


def key(**changes):
    chosen = {"problem": "allreduce", "profile": "h200x8", "revision": registry.revision("allreduce")}
    return queries.BoardKey(**(chosen | changes))


@pytest.fixture
def invented(db):
    """Some hundred invented submissions to one problem."""
    demo.seed(submissions=INVENTED, authors=60, now=timezone.now(), slugs=["allreduce"])


def all_rows(board, *, rows=3):
    """Every row of a board, page after page."""
    found, after = [], ""
    while after is not None:
        part = queries.board_page(board, after=after, rows=rows)
        assert part.rows
        found += part.rows
        after = part.after
    return found


def rows_backwards(board, *, rows=3):
    """Every row that stands on a full page in front of the last one, page before page."""
    page = queries.board_page(board, rows=rows)
    while page.after is not None:
        page = queries.board_page(board, after=page.after, rows=rows)
    last, found = page, []
    while page.before is not None:
        page = queries.board_page(board, before=page.before, rows=rows)
        found = [*page.rows, *found]
    return found, last


SHOWN = [{}, {"backend": "cuda"}, {"size": "large"}, {"profile": "cpux2"}, {"primitive": "sm_load_store"}]


@pytest.mark.parametrize("changes", SHOWN)
def test_pages_one_after_the_other_are_the_whole_board(invented, changes):
    board = key(**changes)
    by_pages = all_rows(board)
    at_once = list(queries.board_page(board, rows=1000).rows)
    assert len(at_once) > 3
    assert by_pages == at_once


@pytest.mark.parametrize("changes", SHOWN)
def test_pages_lead_back_to_the_first_one(invented, changes):
    board = key(**changes)
    at_once = list(queries.board_page(board, rows=1000).rows)
    backwards, last = rows_backwards(board)
    assert at_once == [*backwards, *last.rows]


@pytest.mark.parametrize("size", [None, "large"])
def test_a_board_can_be_narrowed_to_a_primitive_and_places_are_among_these(invented, size):
    every = queries.board_page(key(size=size), rows=1000).rows
    found = queries.board_page(key(size=size, primitive="nccl"), rows=1000).rows
    assert [row.author for row in found] == [row.author for row in every if "nccl" in row.primitives]
    assert 0 < len(found) < len(every)
    assert [row.place for row in found] == list(range(1, len(found) + 1))


def test_people_lead_on_and_back(invented):
    first = people_page(profile="h200x8", rows=3)
    second = people_page(profile="h200x8", after=first.after, rows=3)
    assert (second.ahead, len(second.rows)) == (3, 3)
    assert people_page(profile="h200x8", before=second.before, rows=3).rows == first.rows


def test_records_lead_on_and_back(client, invented, monkeypatch):
    monkeypatch.setattr(views, "PAGE_ROWS", 3)
    records = "/leaderboards/records/"
    first = page(client, records)
    second = page(client, records + link(first, "next"))
    assert rows_of(second) != rows_of(first)
    assert rows_of(page(client, records + link(second, "prev"))) == rows_of(first)


def test_the_order_at_one_size_is_that_of_its_own_speedup(invented):
    lows = [row.low for row in queries.board_page(key(size="large"), rows=1000).rows]
    assert lows == sorted(lows, reverse=True)


def test_a_board_shows_its_entries_time_utilisation_and_the_next_page(client, invented, monkeypatch):
    monkeypatch.setattr(views, "PAGE_ROWS", 3)
    text = page(client, BOARD, profile="h200x8")
    assert "Share of the roofline" in text
    assert "base</span>" in text
    assert 'rel="next"' in text


@pytest.mark.parametrize("after", ["nonsense", "W10", "WzEsMl0", "bnVsbA", "WyJhIiwiYiIsImMiXQ", "%00"])
def test_a_cursor_that_is_not_ours_is_a_404(client, db, after):
    assert client.get(BOARD, {"profile": "h200x8", "after": after}).status_code == 404
    assert client.get("/leaderboards/people/", {"after": after}).status_code == 404


@pytest.mark.parametrize("query", [{"size": "huge", "profile": "h200x8"}, {"profile": "x"}])
def test_an_unknown_facet_is_a_404_with_the_known_ones(client, db, query):
    response = client.get(BOARD, query)
    assert response.status_code == 404
    assert b"Choose one of" in response.content


def test_a_board_opens_on_the_hardware_with_most_entries_not_on_a_practice_profile(client, local):
    for name in ("ada", "bob"):
        scenes.judged(scenes.person(name), local)
    assert client.get(BOARD).context["profile"].name == "cpux2"
    stand(scenes.person("first"), local, low=1.0, high=1.1)
    assert client.get(BOARD).context["profile"].name == "h200x8"
    text = page(client, BOARD, profile="cpux2", backend="pytorch")
    assert re.search(r'href="\?profile=h200x8&amp;backend=pytorch">8 x H200 <span class="chip-note">1</span>', text)


def test_the_list_of_problems_shows_how_far_each_is_on_the_chosen_hardware(client, local):
    stand(scenes.person("first"), local, low=1.0, high=1.1)
    text = page(client, "/problems/")
    count = len(registry.problems())
    assert f"1 of {count} solved by people, 0 significantly faster than the reference" in text
    assert re.search(
        r"All-reduce \(sum\).*?<td[^>]*>.*?not distinguishable</span><span class=\"sub\">1.00 to 1.10",
        text,
        re.DOTALL,
    )
    assert f"0 of {count} solved by people" in page(client, "/problems/", profile="h100x8")
    assert client.get("/problems/", {"profile": "x"}).status_code == 404


def test_the_way_in_shows_the_head_of_every_board_models_first(client, alice, local):
    empty = page(client, "/leaderboards/")
    assert "not measured here" in empty
    assert "be the first" in empty
    for name, low in (("slow", 0.8), ("fast", 1.2)):
        stand(scenes.person(name), local, low=low, high=low + 0.1)
    text = page(client, "/leaderboards/")
    sections = [text.index(f'id="{name}"') for name in ("models", "problems", "people", "records")]
    assert sections == sorted(sections)
    assert ">fast</a>" in text
    assert f"<b>1 / {len(registry.problems())}</b><span>significantly faster than the reference" in text


def test_where_the_board_of_problems_lived_leads_to_their_list(client, db):
    response = client.get("/leaderboards/problems/", {"profile": "h200x8"})
    assert (response.status_code, response["Location"]) == (302, "/problems/?profile=h200x8")


def test_people_go_by_problems_solved_faster_than_the_reference(client, local):
    stand(scenes.person("correct"), local, low=0.5, high=0.6)
    stand(scenes.person("faster"), local, low=1.2, high=1.3)
    rows = page(client, "/leaderboards/people/", profile="h200x8").split("<tbody>")[1].split("</tr>")
    assert ">faster</a>" in rows[0]
    assert ">correct</a>" in rows[1]


def test_everybody_has_a_page_with_their_entries(client, alice, local):
    scenes.judged(alice, local)
    text = page(client, "/leaderboards/people/alice/")
    assert "All-reduce" in text
    assert client.get("/leaderboards/people/nobody/").status_code == 404


def test_a_closed_account_leaves_people_records_counts_and_search(client, local):
    for name, low in (("stays", 1.1), ("quitter", 1.5)):
        stand(scenes.person(name), local, low=low, high=low + 0.1)
    person = User.objects.get(username="quitter")
    person.is_active = False
    person.save()
    assert Board.objects.get(profile="h200x8").entries == 1
    for address in (
        "/leaderboards/people/?profile=h200x8",
        "/leaderboards/records/",
        "/leaderboards/",
        "/problems/",
        BOARD,
    ):
        assert ">quitter<" not in page(client, address)
    assert "0 found" in page(client, "/search/", q="quitter")
    assert client.get("/leaderboards/people/quitter/").status_code == 404


def test_only_a_better_entry_is_a_record_and_practice_knows_the_first_alone(local):
    for name, low in (("first", 1.0), ("slower", 0.9), ("better", 1.2)):
        stand(scenes.person(name), local, low=low, high=low + 0.1)
    assert list(Record.objects.order_by("id").values_list("author__username", "previous_low")) == [
        ("first", None),
        ("better", 1.0),
    ]
    Evaluation.objects.update(profile="cpux2")
    rebuild_standings()
    assert list(Record.objects.values_list("author__username", flat=True)) == ["first"]


def test_records_are_shown_over_time_and_fed_to_readers(client, local):
    for name, low in (("first", 1.0), ("better", 1.2)):
        stand(scenes.person(name), local, low=low, high=low + 0.1)
    text = page(client, "/problems/allreduce/records/", profile="h200x8")
    assert 'id="records-figure"' in text
    assert text.index(">better<") < text.index(">first<")
    feed = client.get("/feeds/records.atom")
    assert feed["Content-Type"].startswith("application/atom+xml")
    entries = ET.fromstring(feed.content).findall("{http://www.w3.org/2005/Atom}entry")
    titles = [entry.findtext("{http://www.w3.org/2005/Atom}title") for entry in entries]
    assert [title.endswith(("by better", "by first")) for title in titles] == [True, True]


def test_scaling_shows_the_leaders_of_one_machine_side_by_side(client, local):
    for name, profile in (("two", "h200x2"), ("eight", "h200x8"), ("other", "h100x8")):
        evaluation = scenes.judged(scenes.person(name), local).evaluations.get()
        Evaluation.objects.filter(pk=evaluation.pk).update(profile=profile)
    rebuild_standings()
    text = page(client, "/problems/allreduce/scaling/")
    assert text.index("H200") < text.index(">two<") < text.index(">eight<") < text.index(">other<")
    assert 'id="scaling-h200x2"' in text
    assert text.index('id="scaling-machines"') < text.index('id="scaling-h200x2"')


def test_what_is_open_distinguishes_unsolved_from_unbeaten(client, local):
    everything = len(registry.problems())
    stand(scenes.person("close"), local, low=0.8, high=1.1)
    text = page(client, "/leaderboards/open/", profile="h200x8")
    assert f"<b>{everything - 1} / {everything}</b>" in text
    assert ">close</a>" in text
    stand(scenes.person("beats"), local, low=1.05, high=1.1)
    assert ">close</a>" not in page(client, "/leaderboards/open/", profile="h200x8")


def test_published_results_are_marked_as_not_ours(client, db):
    text = page(client, "/leaderboards/published/")
    assert "None was measured here" in text
    assert all(
        figure.source in text and figure.date in text
        for figure in published.figures().values()
        if figure.name != "latency"
    )
    [failures] = re.findall(r'<th scope="row">nvcc/syntax errors</th>(.*?)</tr>', text)
    heads = re.findall(r'<th scope="col" class="num">([^<]*)</th>', text[text.index(">Outcome</th>") :])[:5]
    assert dict(zip(heads, re.findall(r">(\d+)<", failures), strict=True))["Gemini 3 Pro"] == "10"
    assert "GPT-5.5, fast_1@3: the rows add up to 30, the last line says 27." in text
    [tensor] = re.findall(r'<th scope="row" class="nowrap">Tensor Parallel</th>(.*?)</tr>', text)
    assert re.findall(r">(\d+)<", tensor)[:2] == ["17", "13"]
    assert "13 of" in page(client, "/problems/", category="tensor") or ">13<" in page(
        client, "/problems/", category="tensor"
    )
    [agentic] = re.findall(r'<th scope="row">Agentic loop</th>(.*?)</tr>', text)
    assert re.findall(r">(\d+)<", agentic) == ["35", "26"]
    assert "Gemini 3 Pro: 30 solved" in page(client, "/leaderboards/published/", k="3")
    assert "500 warm-up and 100 timed calls" in text
    lines = client.get("/leaderboards/published.jsonl").content.decode().splitlines()
    rows = [json.loads(line) for line in lines]
    [best] = [row for row in rows if (row["model"], row["group"], row["measure"]) == ("GPT-5.5", "Total", "fast_1@3")]
    assert best["value"] == 27
    assert client.get("/leaderboards/published.csv").content.count(b"\n") == len(rows) + 1


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        (
            "values.csv",
            "Deadlock,5",
            "Deadlock,6",
            "values.csv, line 283: the endings of GPT-5.5 add up to 88, not to 87.",
        ),
        ("values.csv", "Deadlock,5", "Deadlock,few", "value 'few' is no number"),
        (
            "values.csv",
            "categories,,Tensor Parallel",
            "categories,,Tenser Parallel",
            "group 'Tenser Parallel' is none of",
        ),
        ("values.csv", "failures,GPT", "endings,GPT", "figure 'endings' is not in figures.csv"),
        ("figures.csv", ",2026-06-07,", ",,", "figures.csv, line 2: date is empty"),
    ],
)
def test_a_published_figure_without_source_or_with_wrong_counts_stops_at_its_line(tmp_path, file, old, new, said):
    for name in ("figures.csv", "values.csv"):
        text = (published.FOLDER / name).read_text()
        (tmp_path / name).write_text(text.replace(old, new) if name == file else text)
    with pytest.raises(published.WrongData, match=re.escape(said)):
        published.figures(tmp_path)


def test_search_finds_problems_models_and_people(client, alice, local):
    scenes.judged(alice, local)
    assert ">alice</a>" in page(client, "/search/", q="ALI")
    assert "/problems/gemm_allreduce/" in page(client, "/search/", q="gemm all-reduce")
    assert "Nothing matches" in page(client, "/search/", q="<nosuchthing>")
    assert "&lt;nosuch" in page(client, "/search/", q="<nosuchthing>")


def test_pages_say_what_they_are_to_those_who_share_them(client, db):
    text = page(client, "/problems/gemm_allreduce/")
    problem = registry.get("gemm_allreduce")
    assert f'<meta property="og:title" content="{problem.title}">' in text
    assert '<meta property="og:url" content="http://testserver/problems/gemm_allreduce/">' in text
    assert re.search(r'og:image" content="http://testserver\S+card\S*\.png"', text)
    assert "Disallow: /submissions/$" in page(client, "/robots.txt")


@pytest.mark.parametrize("address", PAGES + OTHERS)
def test_the_number_of_queries_does_not_grow(client, local, address, django_assert_num_queries):
    stand(scenes.person("first"), local, low=0.5, high=0.6)
    with CaptureQueriesContext(connection) as few:
        page(client, address)
    for name in ("second", "third"):
        stand(scenes.person(name), local, low=0.7, high=0.8)
    with django_assert_num_queries(len(few)):
        page(client, address)


def test_people_are_counted_anew_when_problems_change(alice, local):
    scenes.judged(alice, local)
    assert not is_rebuild_needed()
    PersonStanding.objects.update(catalog_digest="of before")
    assert is_rebuild_needed()
    rebuild_standings()
    assert not is_rebuild_needed()


def test_invented_rows_say_so_and_go_without_a_trace(client, alice, local, invented):
    assert demo.has_real_submissions() is False
    real = scenes.judged(alice, local)
    board = Board.objects.get(problem="allreduce", profile="cpux2")
    assert board.entries > 1
    assert demo.remove() == INVENTED
    assert demo.has_real_submissions()
    assert Board.objects.get().entries == 1
    assert real.evaluations.get().standings.count() == 1
    assert not User.objects.filter(username__startswith=demo.NAME_PREFIX).exists()


def test_invented_rows_are_what_judging_would_have_derived(invented):
    def derived():
        standings = set(Standing.objects.values_list("evaluation_id", "score_low"))
        boards = set(Board.objects.values_list("problem", "profile", "entries", "record_low"))
        people = set(PersonStanding.objects.values_list("author_id", "profile", "solved", "faster", "reached_at"))
        records = set(Record.objects.values_list("evaluation_id", "previous_low"))
        return standings, boards, people, records

    before = derived()
    # Invented work finishes in the order of its submission but for seconds; deriving goes by the end.
    Evaluation.objects.update(finished_at=F("queued_at"))
    rebuild_standings()
    assert derived() == before


def test_entries_by_another_rule_have_no_place_on_any_page(as_alice, alice, bob, local):
    scenes.judged(alice, local, score=5.0, rule=SCORE_RULE - 1)
    scenes.judged(bob, local, score=1.25)
    for address in (BOARD, "/problems/allreduce/records/", "/leaderboards/people/"):
        shown = page(as_alice, address, profile="cpux2").split("<main")[1]
        assert "bob" in rows_of(shown), address
        assert "alice" not in rows_of(shown), address
    assert "No accepted entry" in page(as_alice, "/leaderboards/people/alice/")
