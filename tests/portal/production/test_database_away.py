"""PostgreSQL stops and starts under the site: 503 with Retry-After meanwhile, and nothing has to be restarted."""

import http.client
import json
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from http.cookies import SimpleCookie

import pytest

from tests.stack import Stack, wait_until

pytestmark = pytest.mark.production

MAKE_ALICE = """
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore
from portal.accounts import actions
user = actions.sign_up(username="alice", password="a long pass phrase")
session = SessionStore()
session[SESSION_KEY] = str(user.pk)
session[BACKEND_SESSION_KEY] = "portal.accounts.operators.AccountBackend"
session[HASH_SESSION_KEY] = user.get_session_auth_hash()
session.create()
print(session.session_key)
print(actions.create_token(user, name="away", scopes=["submit", "read"], lifetime_days=1)[1])
"""
PAGES = ("/", "/problems/", "/problems/allreduce/", "/leaderboards/", "/submissions/", "/search/?q=a", "/accounts/")
API = ("/api/v1/problems/allreduce/leaderboard/?profile=cpux2", "/api/v1/submissions/", "/api/v1/nodes/")
SUBMISSION = {
    "problem": "allreduce",
    "profile": "cpux2",
    "backend": "pytorch",
    "mode": "check",
    "source": "def solution(tensor):\n    return tensor\n",
}


@dataclass(frozen=True)
class Answer:
    status: int
    headers: http.client.HTTPMessage
    text: str


@dataclass(frozen=True)
class Visitor:
    """Alice in a browser, and her program."""

    stack: Stack
    session: str
    token: str

    def get(self, path: str) -> Answer:
        return self._ask("GET", path, {"Cookie": f"sessionid={self.session}"})

    def get_api(self, path: str) -> Answer:
        return self._ask("GET", path, {"Authorization": f"Bearer {self.token}"})

    def submit(self, key: str) -> Answer:
        headers = {
            "Authorization": f"Bearer {self.token}",
            "Content-Type": "application/json",
            "Idempotency-Key": key,
        }
        return self._ask("POST", "/api/v1/submissions/", headers, json.dumps(SUBMISSION).encode())

    def cancel(self, submission: str) -> Answer:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        return self._ask("POST", f"/api/v1/submissions/{submission}/cancel/", headers, b"{}")

    def submit_form(self, protection: str) -> Answer:
        headers = {
            "Cookie": f"sessionid={self.session}; csrftoken={protection}",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        body = f"csrfmiddlewaretoken={protection}&backend=pytorch&profile=cpux2&mode=check&source=x".encode()
        return self._ask("POST", "/problems/allreduce/submit/", headers, body)

    def _ask(self, method: str, path: str, headers: dict[str, str], body: bytes | None = None) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.stack.port, timeout=30)
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read().decode())
        finally:
            connection.close()


@pytest.fixture
def visitor(postgres, tmp_path) -> Iterator[Visitor]:
    url = postgres.create_database(f"away_{uuid.uuid4().hex[:8]}", template="migrated")
    with Stack(tmp_path / "site", database_url=url) as stack:
        session, token = stack.manage("shell", "--no-imports", "-c", MAKE_ALICE).split()
        stack.start_web()
        yield Visitor(stack, session, token)


@pytest.fixture
def stopped_and_started(postgres):
    """The server runs again for the tests after this one, however this one ends."""
    yield postgres
    if postgres.process is None:
        postgres.start()


def test_a_database_that_stops_is_503_everywhere_and_comes_back_by_itself(visitor, stopped_and_started):
    pages = {path: visitor.get(path).status for path in PAGES}
    assert pages == dict.fromkeys(PAGES, 200)
    assert [visitor.get_api(path).status for path in API] == [200] * len(API)
    protection = SimpleCookie(visitor.get("/problems/allreduce/submit/").headers["Set-Cookie"])["csrftoken"].value
    key = str(uuid.uuid4())

    # As by a crash: connections break in the middle of whatever they do.
    stopped_and_started.kill()
    away = {path: visitor.get(path) for path in (*PAGES, "/no-such-page/")} | {
        "the form": visitor.submit_form(protection)
    }
    for path, answer in away.items():
        assert (path, answer.status) == (path, 503)
        assert int(answer.headers["Retry-After"]) > 0, path
        assert "database does not respond" in answer.text, path
        assert "Traceback" not in answer.text, path
        assert answer.headers["X-Request-ID"] in answer.text, path
    for answer in [*map(visitor.get_api, API), visitor.submit(key)]:
        problem = json.loads(answer.text)
        assert (answer.status, problem["status"]) == (503, 503)
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert problem["type"].endswith("#unavailable")
        assert problem["request_id"] == answer.headers["X-Request-ID"]
        assert int(answer.headers["Retry-After"]) > 0
    ready = visitor.get("/readyz")
    assert (ready.status, ready.text) == (503, "the database does not respond\n")
    assert int(ready.headers["Retry-After"]) > 0
    assert visitor.get("/healthz").status == 200

    stopped_and_started.start()
    # The very first answers: every thread of the web process throws its broken connection away.
    assert [visitor.get(path).status for path in PAGES] == [200] * len(PAGES)
    assert visitor.get("/no-such-page/").status == 404
    assert visitor.get("/readyz").text == "ready\n"
    accepted = [visitor.submit(key) for _ in range(2)]
    assert [answer.status for answer in accepted] == [201, 201]
    assert len({json.loads(answer.text)["id"] for answer in accepted}) == 1
    assert "Traceback" not in visitor.stack.log("web")


def test_a_live_page_waits_for_the_database_and_is_told_of_what_changes_afterwards(visitor, stopped_and_started):
    submission = json.loads(visitor.submit(str(uuid.uuid4())).text)["id"]
    [address] = re.findall(r'data-stream="([^"]+)"', visitor.get(f"/submissions/{submission}/").text)
    connection = http.client.HTTPConnection("127.0.0.1", visitor.stack.port, timeout=60)
    connection.request("GET", address)
    stream = connection.getresponse()
    assert stream.status == 200
    wait_for_change(stream)

    stopped_and_started.kill()
    wait_until(lambda: "live pages wait for the database" in visitor.stack.log("web"), what="the stream meets it")
    stopped_and_started.start()
    assert visitor.cancel(submission).status == 200
    wait_for_change(stream)
    connection.close()
    assert visitor.stack.log("web").count("live pages wait for the database") == 1
    assert "Traceback" not in visitor.stack.log("web")


def wait_for_change(stream: http.client.HTTPResponse) -> None:
    """Read lines until one says that there is something new; the connection's own deadline ends a wait in vain."""
    while stream.readline() != b"event: changed\n":
        assert not stream.isclosed()
