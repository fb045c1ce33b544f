"""Which hardware pages open with: what the reader chose last, else what there is something to see of."""

import pytest

from tests.portal.pages import scenes

MEASURED = "h200x2-nomc"
BOARD = "/problems/embedding_lookup/leaderboard/"


def _shown(client, address):
    context = client.get(address).context
    return (context.get("profile") or context["roofline_profile"]).name


def _choose(client, address, profile, *, on=None):
    """Follow a link to `profile` on the page at the path `on`, by default the page's own."""
    client.get(address, {"profile": profile}, headers={"Referer": f"http://testserver{on or address}"})


@pytest.mark.parametrize("address", [BOARD, "/problems/embedding_lookup/", "/roofline/", "/problems/"])
def test_without_entries_a_page_opens_where_the_reference_was_measured(client, db, address):
    assert _shown(client, address) == MEASURED


def test_a_problem_that_needs_four_ranks_opens_where_four_were_measured(client, db):
    assert _shown(client, "/problems/gnn_sparse_feature_fetch_projection/") == "h200x4-nomc"


def test_a_choice_holds_on_the_pages_that_one_opens_next(client, alice, local):
    scenes.judged(alice, local, problem="embedding_lookup", profile="h100x4")
    assert _shown(client, BOARD) == "h100x4"
    _choose(client, "/roofline/", "h200x2-nomc")
    for address in (BOARD, "/problems/", "/leaderboards/people/", "/leaderboards/models/", "/roofline/"):
        assert _shown(client, address) == "h200x2-nomc", address
    client.force_login(alice)
    form = client.get("/problems/embedding_lookup/submit/").context["form"]
    assert form.initial["profile"] == "h200x2-nomc"


def test_a_link_from_another_page_chooses_nothing(as_alice, local):
    _choose(as_alice, BOARD, "h200x2", on="/")
    assert "hardware" not in as_alice.cookies
    form = as_alice.get("/problems/embedding_lookup/submit/").context["form"]
    assert form.initial["profile"] == "cpux2"  # the only one that is online


def test_a_choice_of_another_profile_stands_in_the_addresses_of_the_roofline(client, db):
    _choose(client, "/roofline/", "h100x4")
    assert 'href="/roofline/?profile=h100x4"' in client.get("/roofline/").content.decode()


def test_a_choice_that_no_longer_exists_counts_for_nothing(client, db):
    client.cookies["hardware"] = "h300x2"
    assert _shown(client, BOARD) == MEASURED
