"""Every view that shows a source, for reader, author and operator: the budget ends the work on the worst texts."""

import pytest
from django.urls import reverse

from evaluator.contract import SourceBundle, SourceFile
from portal.accounts.models import User
from portal.catalog import highlighting
from portal.core.helper import Helper
from portal.submissions import actions
from portal.submissions.models import Submission
from portal.submissions.reports import differences
from tests.portal import worst_texts
from tests.portal.pages import scenes

PLAIN = "Shown without colours"
NOT_COMPARED = "would take the site too long"
ENDLESS_IN_CUDA = {"empty lines after a word", "empty lines and blanks", "blanks after a word"}
MOST_BYTES = 4 * 1024 * 1024


@pytest.fixture(scope="module")
def small_budgets():
    """A tenth of the texts for a tenth of the time."""
    patch = pytest.MonkeyPatch()
    helpers = [Helper(seconds=0.2) for _ in range(2)]
    patch.setattr(highlighting, "_helper", helpers[0])
    patch.setattr(differences, "_helper", helpers[1])
    yield
    patch.undo()
    for helper in helpers:
        helper._end()  # noqa: SLF001 - a web process leaves that to its own end


def submitted(author: User, text: str) -> Submission:
    files = {"lines.h": text.replace("1", "2"), "solution.py": scenes.SOLUTION, "worst.cu": text}
    bundle = SourceBundle(files=tuple(SourceFile(path=path, text=content) for path, content in files.items()))
    made = actions.create_submission(
        author,
        problem="allreduce",
        backend="pytorch",
        profile="cpux2",
        mode="check",
        files=bundle,
        visibility="public",
    )
    return made.submission


def detail_of(submission: Submission) -> str:
    return reverse("submissions:detail", args=[submission.pk])


@pytest.mark.usefixtures("small_budgets")
@pytest.mark.parametrize("title", worst_texts.TEXTS)
def test_no_view_works_for_longer_than_its_budget(client, alice, title):
    text = worst_texts.TEXTS[title][: worst_texts.SIZE // 10]
    earlier = submitted(alice, "//\n" + text.replace("0", "3"))
    submission = submitted(alice, text)
    detail, compare, source = (
        reverse(f"submissions:{name}", args=[submission.pk]) for name in ("detail", "compare", "source")
    )
    addresses = (
        detail,
        f"{compare}?with=reference",
        f"{compare}?with={earlier.pk}",
        f"{source}?file=worst.cu",
        reverse("api:source", args=[submission.pk]),
    )
    operator = User.objects.create_user("operator", password=scenes.PASSWORD, is_staff=True)
    for reader in (None, alice, operator):
        if reader is not None:
            client.force_login(reader)
        for address in addresses:
            response = client.get(address)
            assert response.status_code == 200
            assert len(response.content) < MOST_BYTES, address
        page = client.get(detail).content.decode()
        assert (PLAIN in page) >= (title in ENDLESS_IN_CUDA)
        if reader is not None:
            changes = reverse("submissions:draft-changes", args=["allreduce"])
            assert client.post(changes, {"source": text}).status_code == 200


@pytest.mark.usefixtures("small_budgets")
def test_lines_that_repeat_are_not_compared_and_the_pages_say_so(client, alice):
    lines = "0\n{}\n" * 1900
    earlier, submission = (submitted(alice, lines.replace("{}", mark)) for mark in "45")
    address = reverse("submissions:compare", args=[submission.pk], query={"with": str(earlier.pk)})
    page = client.get(address).content.decode()
    assert page.count(NOT_COMPARED) == 2
    assert "0 lines added" not in page
    assert "too much to count the changes here" in client.get(detail_of(submission)).content.decode()


def test_a_page_lists_so_many_lines_and_says_how_many_are_left_out(client, alice):
    submission = submitted(alice, "x\n" * highlighting.MOST_LINES)
    page = client.get(detail_of(submission)).content.decode()
    assert page.count("<tr id=") == highlighting.MOST_LINES
    own = len(scenes.SOLUTION.splitlines())
    assert f"no room for the last {own} lines: download the file to read them." in page
    assert f"no room for the last {highlighting.MOST_LINES} lines: download the file to read them." in page
