"""The table of who may do what: its file, the site's routes, and a try of one cell."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from django.core.cache import cache
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection, transaction
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from tests.portal.access.world import ROLES, World, json_body
from tests.portal.runs.rows import line, lines

FILE = Path(__file__).with_name("matrix.txt")
METHODS = ("GET", "POST")
HARMLESS = ("django_session", "accounts_apitoken", "attempts_cache")
"""Tables that a refused request, or one that only reads, may write to: sessions, when a token was used, counters."""
BODIES: dict[str, dict[str, Any]] = {
    "accounts:revoke-token": {},
    "submissions:visibility": {"visibility": "public"},
    "submissions:flag": {"reason": "It caches."},
    "notices:kinds": {"kinds": ["verdict"]},
    "runs:publish": {"sources": "public"},
    "organisations:invite": {"username": "bob", "role": "member"},
    "organisations:change-role": {"username": "carol", "role": "owner"},
    "organisations:remove-member": {"username": "carol"},
    "organisations:add-webhook": {"url": "https://other.example.org/", "events": ["run.completed"]},
    "api:publish": {"sources": "public"},
    "api:evaluations": {"mode": "ranked"},
    "api:members": {"username": "carol", "role": "owner"},
    "api:remove-member": {"username": "carol"},
    "api:sent-invitations": {"username": "bob", "role": "member"},
    "api:webhooks": {"url": "https://other.example.org/", "events": ["run.completed"]},
    "api:attempts": {"problem": "allreduce", "sample": 7, "step": 0, "source": "def solution(tensor):\n    pass\n"},
}
"""What is sent with a POST, where an empty body would be refused before anybody asks who sends it."""
FILES = {"runs:fill": ("file", "attempts.jsonl", lines(line(sample=8)))}
"""The file that is sent with a form."""
ELSEWHERE = {
    "/accounts/sign-in/?next=": "sign-in",
    "/admin/login/": "sign-in",
    "/accounts/again/": "again",
    "/accounts/security/": "factor",
}
"""What a redirect to these means: sign in first, show again who you are, set up a second factor."""
QUERIES = {"runs:compare": "?a={run_id}&b={run_id}"}
"""What a GET asks for, where it makes no sense without."""


@dataclass(frozen=True)
class Route:
    """One address of the site: its full name, how it is written, and what stands in it."""

    name: str
    pattern: str
    parameters: tuple[str, ...]

    def kinds(self) -> tuple[str, ...]:
        """The objects that it is tried with: a private and a public one where it is about either, and an entry."""
        if {"submission_id", "evaluation_id"} & set(self.parameters):
            return ("private", "public", "entered")
        about_one = "run_id" in self.parameters
        return ("private", "public") if about_one or self.pattern.startswith(("models/", "api/v1/models/<")) else ("-",)

    def address(self, values: Any) -> str:
        """The path, with `values` by parameter."""
        path = re.sub(r"\(\?P<(\w+)>[^)]*\)", r"<\1>", self.pattern).replace("^", "").replace("$", "")
        path = path.replace("\\.", ".").replace("\\Z", "")
        owner = {"organisations": "organisation", "models": "model", "nodes": "organisation"}.get(
            path.removeprefix("api/v1/").split("/")[0]
        )
        plain = re.sub(
            r"<(?:\w+:)?(\w+)>",
            lambda found: str(values.get(owner if owner and found[1] == "slug" else found[1], 1)),
            path,
        )
        return "/" + plain + QUERIES.get(self.name, "").format(**values)


@dataclass(frozen=True, order=True)
class Row:
    """What one method of one route is expected to answer, role by role."""

    route: str
    method: str
    kind: str
    cells: tuple[str, ...]

    def __str__(self) -> str:
        cells = self.cells[:1] if len(set(self.cells)) == 1 else self.cells
        return f"{self.route:36} {self.method:4} {self.kind:7}" + "".join(f" {cell:>10}" for cell in cells)


def routes() -> list[Route]:
    """Every route of the URL table, the admin's among them."""
    return list(_walk(get_resolver(), "", ""))


def _walk(resolver: URLResolver, pattern: str, namespace: str) -> Iterator[Route]:
    for each in resolver.url_patterns:
        written = pattern + str(each.pattern)
        if isinstance(each, URLResolver):
            yield from _walk(each, written, f"{namespace}{each.namespace}:" if each.namespace else namespace)
        elif isinstance(each, URLPattern):
            name = f"{namespace}{each.name or written}"
            yield Route(name, written, tuple(re.findall(r"<(?:\w+:)?(\w+)>", written)))


def rows() -> list[Row]:
    """The rows of the file; a single cell stands for every role."""
    lines = (line.split() for line in FILE.read_text().splitlines() if line.strip() and not line.startswith("#"))
    return [
        Row(route, method, kind, tuple(cells) if len(cells) > 1 else tuple(cells) * len(ROLES))
        for route, method, kind, *cells in lines
    ]


def row_for(known: list[Row], route: Route, method: str, kind: str) -> Row | None:
    """The row about it: its own, else the one of a family such as `admin:*`."""
    fitting = [row for row in known if fnmatch(route.name, row.route) and (row.method, row.kind) == (method, kind)]
    return min(fitting, key=lambda row: "*" in row.route, default=None)


def tried(world: World, route: Route, method: str, kind: str) -> Row:
    """What the site answers to every role, each time as if nothing had happened before."""
    address = route.address(getattr(world, kind, world.private))
    cells = tuple(_try(world.clients[role], route, method, address) for role in ROLES)
    return Row(route.name, method, kind, cells)


def _try(client: Callable[[], Client], route: Route, method: str, address: str) -> str:
    cache.clear()  # the anonymous rate of the API
    written: list[str] = []
    with transaction.atomic(), connection.execute_wrapper(_writes_into(written)):
        answer = _answer(client(), route, method, address)
        said = _in_a_word(answer)
        if answer.streaming:
            # A download counts as running until it is read to its end.
            list(answer)
        transaction.set_rollback(True)
    if written and (said != "ok" or method == "GET"):
        return f"{said}+wrote"
    return said


def _answer(client: Client, route: Route, method: str, address: str) -> Any:
    client.raise_request_exception = False
    if method == "GET":
        return client.get(address)
    body = dict(BODIES.get(route.name, {}))
    if route.name in FILES:
        field, name, content = FILES[route.name]
        body[field] = SimpleUploadedFile(name, content)
    return client.post(address, **(json_body(body) if route.name.startswith("api:") else {"data": body}))


def _in_a_word(answer: Any) -> str:
    """`ok` where the door was open, whatever was then said of an empty form; else how it was closed."""
    if answer.status_code == 302:
        return next((word for start, word in ELSEWHERE.items() if answer["Location"].startswith(start)), "ok")
    if answer.status_code in (401, 403, 404, 405) or answer.status_code >= 500:
        return str(answer.status_code)
    return "ok"


def _writes_into(written: list[str]) -> Callable[..., Any]:
    def watch(execute: Any, sql: str, params: Any, many: Any, context: Any) -> Any:
        if re.match(r"\s*(INSERT|UPDATE|DELETE)\b", sql) and not any(table in sql for table in HARMLESS):
            written.append(sql)
        return execute(sql, params, many, context)

    return watch
