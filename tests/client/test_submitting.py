"""Signing in, submitting, following and reading the diagnosis, as the command and from Python."""

import html
import json
import re
import stat
import urllib.request

import pytest

from pkb import Refused, Unreachable, UsageError
from tests.client.network import CuttingProxy
from tests.client.programs import RAISES_ON_RANK_ONE, RIGHT

# What is submitted there only to be stored keeps no judge busy.
WITHOUT_A_NODE = "cpux4"


def test_login_stores_the_token_for_its_owner_alone(command, site, tmp_path):
    done = command("login", site.url, stdin=f"{site.token}\n", PKB_TOKEN="", PKB_SITE="")
    assert (done.status, done.err) == (0, "")
    stored = tmp_path / "config" / "credentials.json"
    assert stat.S_IMODE(stored.stat().st_mode) == 0o600
    assert command("submissions", PKB_TOKEN="", PKB_SITE="").status == 0
    assert command("logout", PKB_TOKEN="", PKB_SITE="").status == 0
    assert site.token not in stored.read_text()


def test_what_the_command_says_of_a_wrong_program_stands_on_its_page(command, alice, site, tmp_path):
    (tmp_path / "solution.py").write_text(RAISES_ON_RANK_ONE)
    # A folder is packed as it is; the only profile with a node is taken.
    done = command("submit", "allreduce", tmp_path, "--mode", "check", "--visibility", "public", "--watch")
    assert done.status == 1
    identifier, words = done.out.split(" ", 1)[0], done.out.splitlines()
    assert words[:2] == [f"{identifier} allreduce", "RUNTIME_ERROR (Runtime error)"]
    again = command("status", f"{site.url}/submissions/{identifier}/", "--watch", "--json")
    assert (again.status, json.loads(again.out)["evaluation"]["verdict"]) == (1, "RUNTIME_ERROR")
    submission = alice.submission(identifier)
    with urllib.request.urlopen(f"{site.url}/submissions/{identifier}/") as answer:
        page = _plain(answer.read().decode())
    evaluation = submission.evaluation
    assert evaluation.facts
    assert evaluation.report
    shown_to_both = [evaluation.message, evaluation.facts.title, evaluation.facts.advice]
    shown_to_both += [finding.message for finding in evaluation.report.findings]
    shown_to_both += [rank.phase for rank in evaluation.report.ranks]
    shown_to_both += [line for rank in evaluation.report.ranks for line in (rank.stack or "").splitlines()]
    assert "rank one gives up" in done.out
    for text in shown_to_both:
        assert _plain(text).lower() in _plain(" ".join(words)).lower()
        assert _plain(text).lower() in page.lower()


def _plain(text: str) -> str:
    """Text without markup, every run of blanks as one."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", "", text)).split())


def test_the_same_key_gives_the_same_submission(alice):
    first, again = (
        alice.submit_text("allreduce", f"{RIGHT}# a key\n", profile=WITHOUT_A_NODE, mode="check", key="twice")
        for _ in range(2)
    )
    assert first.id == again.id
    assert alice.cancel(first.id).evaluation.state == "cancelled"
    assert first.id in [entry.id for entry in alice.submissions(problem="allreduce")]


def test_notes_from_a_file_and_what_it_is_built_on_stand_with_the_submission(command, alice, tmp_path):
    (tmp_path / "mine.py").write_text(f"{RIGHT}# with notes\n")
    (tmp_path / "notes.md").write_text("**Overlap** of both")
    arguments = ("submit", "allreduce", "mine.py", "--profile", WITHOUT_A_NODE, "--mode", "check")
    parent = json.loads(command(*arguments, "--json").out)["id"]
    alice.cancel(parent)
    done = command(*arguments, "--notes", "notes.md", "--built-on", parent, "--json")
    child = alice.submission(json.loads(done.out)["id"])
    assert (child.notes, child.built_on) == ("**Overlap** of both", parent)
    alice.cancel(child.id)
    (tmp_path / "notes.md").write_bytes(b"\xff\xfe")
    assert "notes.md is not text in UTF-8" in command(*arguments, "--notes", "notes.md").err


def test_the_same_key_with_another_request_says_what_differs_and_what_to_do(command, alice, tmp_path):
    (tmp_path / "mine.py").write_text(f"{RIGHT}# one key, two modes\n")
    arguments = ("submit", "allreduce", "mine.py", "--profile", WITHOUT_A_NODE, "--key", "two modes", "--mode")
    first = json.loads(command(*arguments, "check", "--json").out)["id"]
    done = command(*arguments, "benchmark")
    alice.cancel(first)
    assert (done.status, done.out) == (3, "")
    assert (
        f"Idempotency-Key 'two modes': This key was used for a different submission, {first}: mode is benchmark"
        in done.err
    )
    assert "and was check. Use another key" in done.err


def test_an_answer_that_got_lost_submits_once(command, site, alice, tmp_path):
    (tmp_path / "mine.py").write_text(f"{RIGHT}# lost\n")
    with CuttingProxy(site.stack.port, after=None) as proxy:
        arguments = (
            "submit",
            "allreduce",
            "mine.py",
            "--profile",
            "cpux2",
            "--mode",
            "check",
            "--note",
            "lost",
            "--json",
        )
        done = command(*arguments, "--site", proxy.url)
        assert (done.status, proxy.cuts) == (0, 1), done.err
    assert [entry.id for entry in alice.submissions() if entry.note == "lost"] == [json.loads(done.out)["id"]]


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (("submit", "allreduce", "missing.py"), 2, "missing.py"),
        (("submit", "allreduce", "notes.txt"), 2, "neither a .py file, a .zip nor a folder"),
        (("submit", "alreduce", "mine.py", "--profile", "cpux2"), 3, "alreduce"),
        (("submit", "allreduce", "mine.py", "--profile", "h900"), 3, "profile 'h900'"),
        (("status", "not-an-id"), 2, "is not an identifier"),
        (("problems", "--site", "not a site"), 2, "is not the address of a site"),
        (("problems", "--site", "http://127.0.0.1:9", "--patience", "0"), 4, "cannot be reached"),
        (("submissions", "--token", "pkb_wrong"), 3, "The token is unknown."),
    ],
)
def test_refusals_name_the_fault_and_end_with_its_status(command, tmp_path, arguments, status, words):
    (tmp_path / "mine.py").write_text(RIGHT)
    (tmp_path / "notes.txt").write_text("no program")
    done = command(*arguments)
    assert (done.status, done.out) == (status, "")
    assert words in done.err
    assert "Traceback" not in done.err


def test_problems(command, alice):
    listed = json.loads(command("problems", "--json").out)
    assert {entry["slug"] for entry in listed} == {problem.slug for problem in alice.problems()}
    assert alice.problem("allreduce").reference in command("problems", "allreduce").out


def test_python_raises_what_the_command_says(alice, site):
    with pytest.raises(Refused) as refused:
        alice.submit_text("allreduce", RIGHT, profile="h900")
    assert (refused.value.status, refused.value.errors[0].field) == (422, "profile")
    with pytest.raises(UsageError):
        alice.submission("17")
    with pytest.raises(Unreachable):
        type(alice)("http://127.0.0.1:9", patience_s=0).problems()
