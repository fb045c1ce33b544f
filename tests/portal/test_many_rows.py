"""What pages cost does not grow with the data: as many statements for many rows as for few, and bounded lists."""

import random

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from portal.accounts import actions as accounts
from portal.accounts.models import User
from portal.core.pagination import BoundedPaginator
from portal.ranking.models import Board, Standing
from portal.submissions import admin_filters
from portal.submissions.models import Evaluation, State, Submission
from tests.portal.factories import submit
from tools.bench import demo_data as demo
from tools.bench.million import KINDS, Data

pytestmark = pytest.mark.django_db
PROBLEMS = ("allreduce", "allgather")
LOOKS = 3
# A short list has no far pages to compare with.
COMPARED = [kind for kind in KINDS if "far pages" not in kind.name]


@pytest.fixture(autouse=True)
def _plain_static_files(settings):
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}


class Visitors:
    """Anybody, the author with most submissions, an operator and a program, as the measurement has them."""

    site = ""

    def __init__(self) -> None:
        self.author = User.objects.get(username=f"{demo.NAME_PREFIX}000000")
        operator, _ = User.objects.get_or_create(username="operator", is_staff=True, is_superuser=True)
        _, secret = accounts.create_token(self.author, name="test", scopes=["read", "runs:read"], lifetime_days=1)
        self.clients = {"anybody": Client(), "author": Client(), "operator": Client()}
        self.clients["program"] = Client(headers={"Authorization": f"Bearer {secret}"})
        self.clients["author"].force_login(self.author)
        self.clients["operator"].force_login(operator)

    def data(self) -> Data:
        """What addresses are made of, from the test's own database."""
        boards = tuple(Board.objects.order_by("-entries").values_list("problem", "profile", "entries"))
        own = Submission.objects.filter(author=self.author).values_list("pk", flat=True)
        public = Submission.objects.filter(visibility="public").values_list("pk", flat=True)
        worst = Standing.objects.values_list("author__username", flat=True).distinct()
        return Data(
            boards=boards,
            worst_people=sorted(worst)[:5],
            people=10,
            public=[str(pk) for pk in public[:20]],
            own=[str(pk) for pk in own[:20]],
            draw=random.Random(1),
        )


class _Reader:
    """Follows pages for the kinds that go through all of them."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def get(self, address: str) -> tuple[int, str]:
        answer = self._client.get(address)
        return answer.status_code, answer.content.decode()


def most_statements(kind, visitors: Visitors) -> int:
    """The most statements of a few requests."""
    client = visitors.clients[kind.who]
    source = kind.addresses(visitors.data(), _Reader(client))
    counts = []
    for _ in range(LOOKS):
        address = next(source)
        client.get(address)
        with CaptureQueriesContext(connection) as captured:
            answer = client.get(address)
        assert answer.status_code in (200, 302), f"{address}: {answer.status_code}"
        # A page beyond the end of a short list leads back to its beginning: no page, and no comparison.
        counts += [len(captured)] if answer.status_code == 200 else []
    return max(counts, default=0)


def test_no_page_asks_more_of_a_larger_database(settings):
    settings.REST_FRAMEWORK = {**settings.REST_FRAMEWORK, "DEFAULT_THROTTLE_CLASSES": []}
    demo.seed(submissions=150, authors=10, now=timezone.now(), slugs=PROBLEMS)
    visitors = Visitors()
    few = {kind.name: most_statements(kind, visitors) for kind in COMPARED}
    demo.seed(submissions=900, authors=40, now=timezone.now(), slugs=PROBLEMS, randomness=2)
    many = {kind.name: most_statements(kind, visitors) for kind in COMPARED}
    grown = {name: (few[name], many[name]) for name in few if many[name] > few[name] > 0}
    assert not grown


def test_a_bounded_list_counts_no_further(alice, settings):
    settings.MAX_QUEUED_PER_AUTHOR = 100
    for _ in range(5):
        submit(alice)

    class Three(BoundedPaginator):
        most = 3

    pages = Three(Submission.objects.order_by("created_at"), 2)
    assert (pages.count, pages.num_pages, pages.is_cut) == (3, 2, True)
    assert not BoundedPaginator(Submission.objects.order_by("created_at"), 2).is_cut


@pytest.fixture
def operator_client(db):
    client = Client()
    client.force_login(User.objects.create_user("chief", is_staff=True, is_superuser=True))
    return client


EVALUATIONS = "/admin/submissions/evaluation/"


def listed(client: Client, address: str) -> set[str]:
    """The evaluations that the operator's list shows."""
    result = client.get(address).context["cl"].result_list
    return {str(row.pk) for row in result}


@pytest.mark.parametrize("period", ["", "day", "all"])
def test_operators_see_the_newest_until_they_ask_for_more(alice, operator_client, monkeypatch, period):
    monkeypatch.setattr(admin_filters, "NEWEST", 2)
    evaluations = [submit(alice).evaluations.get() for _ in range(3)]
    expected = evaluations[1:] if not period else evaluations
    assert listed(operator_client, f"{EVALUATIONS}?period={period}") == {str(each.pk) for each in expected}


def test_operators_find_by_identifier_and_by_the_authors_name(alice, bob, operator_client, monkeypatch):
    monkeypatch.setattr(admin_filters, "NEWEST", 1)
    first, second = submit(alice), submit(bob)
    hers, his = (str(each.evaluations.get().pk) for each in (first, second))
    assert listed(operator_client, f"{EVALUATIONS}?q={first.pk}") == {hers}
    assert listed(operator_client, f"{EVALUATIONS}?q={hers}") == {hers}
    assert listed(operator_client, f"{EVALUATIONS}?q=bob") == {his}
    assert listed(operator_client, f"{EVALUATIONS}?q=nobody") == set()


def test_facets_of_operators_are_those_of_the_code(alice, operator_client):
    evaluation = submit(alice).evaluations.get()
    assert listed(operator_client, f"{EVALUATIONS}?profile=cpux2&problem=allreduce") == {str(evaluation.pk)}
    assert listed(operator_client, f"{EVALUATIONS}?profile=h200x8") == set()
    assert listed(operator_client, f"{EVALUATIONS}?problem=allgather") == set()


def test_own_submissions_are_found_by_what_their_newest_evaluation_says(alice):
    _, secret = accounts.create_token(alice, name="test", scopes=["read"], lifetime_days=1)
    client = Client(headers={"Authorization": f"Bearer {secret}"})
    submission = submit(alice)
    Evaluation.objects.update(state=State.FINISHED, verdict="WRONG_RESULT", finished_at=timezone.now())

    def found(query: str) -> list[str]:
        return [row["id"] for row in client.get(f"/api/v1/submissions/?{query}").json()["results"]]

    assert found("verdict=WRONG_RESULT") == found("state=finished") == [str(submission.pk)]
    Evaluation.objects.create(submission=submission, problem_revision="1", profile="cpux2", mode="check")
    assert found("verdict=WRONG_RESULT") == found("state=finished") == []
    assert found("state=queued") == [str(submission.pk)]
