"""Who may do what: every role at every route, as matrix.txt says.

A new route fails here until it has its rows; the failure shows what the site answers today, to be read cell by cell.
"""

import pytest
from django.utils import timezone

from portal.exports import files
from tests.portal.access.table import METHODS, Route, Row, routes, row_for, rows, tried
from tests.portal.access.world import ROLES, make_world

pytestmark = pytest.mark.django_db
WITH_A_STATE = {
    "github_callback",
    "google_callback",
    "mfa_download_recovery_codes",
    "mfa_view_recovery_codes",
    "openid_connect_callback",
    "openid_connect_login",
    "socialaccount_login_error",
}
"""Pages in the middle of signing in, which open for nobody by themselves; test_signing_in.py goes through them."""

WITH_A_NODES_KEY = {"api:node-heartbeat", "api:node-progress", "api:node-report"}
"""What nodes say: no person has their keys; api/test_nodes.py has them."""


def family_of(route: Route) -> str:
    """The app that a route belongs to: its namespace."""
    return route.name.partition(":")[0] if ":" in route.name else "site"


@pytest.fixture(autouse=True)
def _as_in_production(settings):
    settings.OPERATORS_NEED_SECOND_FACTOR = True
    settings.SECURITY_CONTACT = "mailto:security@example.org"
    settings.EMAIL_URL = "smtp://mail.example.org"  # so that its pages are there; Django's tests send nothing
    client = {"client_id": "id", "secret": "secret"}
    lab = client | {"provider_id": "lab", "name": "Lab", "settings": {"server_url": "http://127.0.0.1:9/"}}
    settings.SOCIALACCOUNT_PROVIDERS = {
        "github": {"APPS": [client]},
        "google": {"APPS": [client]},
        "openid_connect": {"APPS": [lab]},
    }
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}


def questions(found: list[Route]) -> list[tuple[Route, str, str]]:
    return [(route, method, kind) for route in found for kind in route.kinds() for method in METHODS]


@pytest.mark.parametrize("family", sorted({family_of(route) for route in routes()}))
def test_every_role_meets_the_doors_that_the_table_says(family, exports_here):
    world, known, wrong = make_world(), rows(), []
    if family == "api":
        files.make(now=timezone.now())
    found = [route for route in routes() if family_of(route) == family]
    for route, method, kind in questions(found):
        expected = row_for(known, route, method, kind)
        answered = tried(world, route, method, kind)
        if expected is None or not agrees(expected, answered):
            wrong.append(f"is  {answered}" + (f"\nnot {expected}" if expected else "   (no row)"))
    assert not wrong, "read every cell, then put these into tests/portal/access/matrix.txt:\n" + "\n".join(wrong)


def agrees(expected: Row, answered: Row) -> bool:
    return all(wish in ("any", cell) for wish, cell in zip(expected.cells, answered.cells, strict=True))


def test_every_row_is_about_a_route_and_names_every_role():
    asked = questions(routes())
    for row in rows():
        assert len(row.cells) == len(ROLES), row
        assert any(row_for([row], *question) for question in asked), f"no such route any more: {row}"


def test_every_route_opens_for_somebody():
    """A row of refusals alone would also hold for an address that is broken."""
    known = rows()
    for route in routes():
        if route.name in WITH_A_STATE | WITH_A_NODES_KEY:
            continue
        cells = {cell for row in known if row_for([row], route, row.method, row.kind) for cell in row.cells}
        assert cells & {"ok", "again", "any"}, route
