"""One identifier from the click to the node; lines that nobody can forge."""

import io
import json
import logging
import logging.config
import urllib.error
import urllib.request
import uuid

import pytest

from evaluator import logs
from portal.submissions.models import Evaluation
from tests.portal.factories import submit

pytestmark = pytest.mark.production


def about(lines, **facts):
    return [line for line in lines if all(line.get(name) == value for name, value in facts.items())]


def test_one_identifier_leads_from_the_request_to_the_node_and_back(site):
    found = {name: about(site.lines(name), request_id=site.request_id) for name in site.ports}
    assert uuid.UUID(site.request_id)
    messages = {name: [line["message"] for line in lines] for name, lines in found.items()}
    assert "submitted to allreduce on cpux2" in messages["web"]
    assert any(message.startswith("POST /api/v1/submissions/ 201 in") for message in messages["web"])
    assert "sent to slot 0" in messages["dispatcher"]
    assert "judging allreduce in slot 0" in messages["alpha"]
    assert "ended as PASSED" in messages["alpha"]
    assert "report with verdict PASSED" in messages["web"]
    evaluations = {line["evaluation"] for lines in found.values() for line in lines if "evaluation" in line}
    assert len(evaluations) == 1


def test_lines_of_site_and_node_name_the_lease_by_the_same_mark_and_never_the_lease_itself(site):
    marks = {
        line["lease"]
        for name in ("dispatcher", "alpha", "web")
        for line in about(site.lines(name), request_id=site.request_id)
        if "lease" in line
    }
    assert len(marks) == 1
    assert len(marks.pop()) == 12


def test_every_line_of_a_process_with_json_lines_is_json(site):
    for name in site.ports:
        lines = site.stack.log(name).splitlines()
        # Celery prints a picture of its settings before it is ready, at each start.
        begin = max((number for number, line in enumerate(lines) if ' ready."' in line), default=0)
        lines = lines[begin:]
        assert lines
        assert [line for line in lines if not line.startswith("{")] == [], name


def test_an_error_of_the_api_names_the_request_that_the_log_names(site):
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{site.stack.url}/api/v1/problems/no-such-problem/", timeout=30)
    body = json.load(refused.value)
    assert body["request_id"] == refused.value.headers["X-Request-ID"]
    assert about(site.lines("web"), request_id=body["request_id"])


def test_an_error_page_shows_the_number_of_its_request(client, db):
    response = client.get("/problems/no-such-problem/")
    assert response.status_code == 404
    assert response["X-Request-ID"] in response.content.decode()


def test_a_failure_of_ours_shows_the_number_of_its_request(client, db, monkeypatch):
    monkeypatch.setattr("portal.pages.views.board_counts", lambda: 1 / 0)
    client.raise_request_exception = False
    response = client.get("/")
    assert response.status_code == 500
    assert response["X-Request-ID"] in response.content.decode()


def test_what_is_submitted_without_a_request_has_no_request(alice):
    assert submit(alice).evaluations.get().request_id == ""


def test_a_page_gives_its_number_to_what_it_queues(client, alice):
    client.force_login(alice)
    response = client.post(
        "/problems/allreduce/submit/",
        {"backend": "pytorch", "profile": "cpux2", "mode": "check", "visibility": "private",
         "source": "def solution(tensor):\n    return tensor\n"},
    )  # fmt: skip
    assert response.status_code == 302, response.content.decode()[:2000]
    assert Evaluation.objects.get().request_id == response["X-Request-ID"]


@pytest.fixture
def logged():
    """Log one message in a format; the text that comes out."""

    def log(log_format, message, *arguments, **facts):
        kept = io.StringIO()
        settings = logs.configuration(log_format)
        settings["handlers"]["stderr"]["stream"] = kept
        before = logging.getLogger().handlers[:]
        try:
            logging.config.dictConfig(settings)
            with logs.about(**facts):
                logging.getLogger("tests").warning(message, *arguments)
        finally:
            logging.getLogger().handlers[:] = before
        return kept.getvalue()

    return log


@pytest.mark.parametrize("log_format", ["text", "json"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\x0b", "\x85", "\u2028", "\x1b[2K"])
def test_what_a_message_quotes_cannot_begin_a_line_of_its_own(logged, log_format, end):
    text = logged(log_format, "heartbeat of node %s", f"x{end}2026-01-01 ERROR forged", request_id="a")
    assert len(text.splitlines()) == 1
    assert "\x1b" not in text


def test_text_ends_with_what_it_is_about(logged):
    text = logged("text", "judging", request_id="r1", evaluation="e1", node="")
    assert text.rstrip().endswith("tests: judging [request_id=r1 evaluation=e1]")


def test_facts_end_with_their_block():
    with logs.about(request_id="outer"):
        with logs.about(request_id="inner", lease="l"):
            assert (logs.current("request_id"), logs.current("lease")) == ("inner", "l")
        assert (logs.current("request_id"), logs.current("lease")) == ("outer", "")
    assert logs.current("request_id") == ""


def test_an_unknown_format_is_refused_with_those_that_there_are():
    with pytest.raises(ValueError, match="use one of text, json"):
        logs.configuration("xml")
