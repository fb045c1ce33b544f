"""Runs of a model: create, fill, follow, publish, export. `Client.runs` is one of these."""

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import IO, Any

import msgspec

from .identifiers import identifier
from .results import (
    Attempt,
    AttemptPage,
    BulkResult,
    EventPage,
    Import,
    ImportPreview,
    Organisation,
    Quota,
    Run,
    RunBrief,
    RunBriefPage,
)
from .transport import Transport, decode

_FEED_WAIT_S = 25
_BULK_TIMEOUT_S = 900.0


class NewRun(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a run is created from; only model, mode and profile must be given."""

    model: str
    mode: str
    profile: str
    backend: str = "pytorch"
    k: int = 1
    version: str = ""
    provider: str = ""
    organisation: str | None = None
    sampling: dict[str, Any] = {}
    prompt_version: str = ""
    cost_usd: float | None = None
    notes: str = ""


class NewAttempt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One attempt: `source` is the text of solution.py, `files` several texts by path; give one of the two."""

    problem: str
    sample: int = 0
    step: int = 0
    source: str | None = None
    files: dict[str, str] | None = None
    mode: str = "ranked"
    backend: str | None = None
    key: str | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    cost_usd: float | None = None
    seconds: float | None = None
    trajectory: str | None = None

    @property
    def identity(self) -> str:
        """The key that the site knows it by."""
        return self.key or f"{self.problem}/{self.sample}/{self.step}"


class Runs:
    """The part of the site that is about runs."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def create(self, run: NewRun, *, key: str | None = None) -> Run:
        """A new run; the same `key` again gives the same run."""
        headers = {"Idempotency-Key": key or f"pkb-{uuid.uuid4()}"}
        return decode(self._transport.request("POST", "runs/", json=run, headers=headers), Run)

    def get(self, run_id: str) -> Run:
        """One run with its figures."""
        return self._transport.get(f"runs/{identifier(run_id)}/", Run)

    def list(self, *, model: str | None = None, state: str | None = None) -> Iterator[RunBrief]:
        """Published and own runs, the newest first."""
        params = {name: value for name, value in {"model": model, "state": state}.items() if value is not None}
        page = self._transport.get("runs/", RunBriefPage, params=params)
        yield from page.results
        while page.next:
            page = self._transport.get(page.next, RunBriefPage)
            yield from page.results

    def add_attempt(self, run_id: str, attempt: NewAttempt) -> Attempt:
        """Add one attempt. Repeating it changes nothing, so a call whose answer got lost is sent again."""
        answer = self._transport.request(
            "POST", f"runs/{identifier(run_id)}/attempts/", json=attempt, is_repeatable=True
        )
        return decode(answer, Attempt)

    def add_lines(
        self, run_id: str, body: Callable[[], Iterable[bytes]], *, length: int
    ) -> tuple[BulkResult, float | None]:
        """Add many attempts as JSON Lines that `body` yields; what became of each, and Retry-After where one came."""
        answer = self._transport.request(
            "POST",
            f"runs/{identifier(run_id)}/attempts/bulk/",
            headers={"Content-Type": "application/x-ndjson", "Content-Length": str(length)},
            body=body,
            is_repeatable=True,
            timeout_s=_BULK_TIMEOUT_S,
        )
        after = answer.headers.get("Retry-After", "")
        return decode(answer, BulkResult), float(after) if after.isdecimal() else None

    def attempts(self, run_id: str, **narrowed: str | int) -> Iterator[Attempt]:
        """The attempts of a run, narrowed by `problem`, `verdict`, `state` or `sample`."""
        page = self._transport.get(f"runs/{identifier(run_id)}/attempts/", AttemptPage, params=narrowed)
        yield from page.results
        while page.next:
            page = self._transport.get(page.next, AttemptPage)
            yield from page.results

    def watch(self, run_id: str, *, after: int = 0) -> Iterator[EventPage]:
        """What happens to a run, page by page, until nothing is pending; calls are held open while it is quiet."""
        while True:
            params = {"after": after, "wait": _FEED_WAIT_S, "limit": 500}
            page = self._transport.get(f"runs/{identifier(run_id)}/events/", EventPage, params=params)
            yield page
            if not page.pending and not page.events:
                return
            after = page.next

    def publish(self, run_id: str, *, sources: str = "public") -> Run:
        """Show the run, its attempts and, unless `sources` is "private", their sources to everybody; for good."""
        answer = self._transport.request(
            "POST", f"runs/{identifier(run_id)}/publish/", json={"sources": sources}, is_repeatable=True
        )
        return decode(answer, Run)

    def export(self, run_id: str, into: IO[bytes], *, format: str = "jsonl") -> int:  # noqa: A002 - the API's own word
        """Write one row per attempt as `csv` or `jsonl`; the number of bytes."""
        with self._transport.download(f"runs/{identifier(run_id)}/export/", params={"format": format}) as pieces:
            return sum(into.write(piece) for piece in pieces)

    def preview_tree(self, name: str, content: bytes, fields: Mapping[str, str]) -> ImportPreview:
        """What `import_tree` would do with the same arguments; the site stores nothing."""
        answer = self._transport.request(
            "POST",
            "runs/import/preview/",
            form=fields,
            file=(name, content),
            is_repeatable=True,
            timeout_s=_BULK_TIMEOUT_S,
        )
        return decode(answer, ImportPreview)

    def import_tree(self, name: str, content: bytes, fields: Mapping[str, str]) -> Import:
        """A zip of a solution tree becomes a run; `fields` are organisation, model, version, provider, profile, ..."""
        answer = self._transport.request(
            "POST", "runs/import/", form=fields, file=(name, content), timeout_s=_BULK_TIMEOUT_S
        )
        return decode(answer, Import)

    def organisations(self) -> Sequence[Organisation]:
        """One's own organisations."""
        return self._transport.get("organisations/", tuple[Organisation, ...])

    def quota(self, organisation: str) -> Quota:
        """GPU-seconds used, reserved and left."""
        return self._transport.get(f"organisations/{organisation}/quota/", Quota)
