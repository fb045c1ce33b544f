"""The site as a Python object: every call takes and gives typed values."""

import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from .identifiers import identifier
from .outcomes import has_ended
from .packing import Upload, upload_of, upload_of_text
from .results import (
    Forecast,
    Me,
    Problem,
    ProblemBrief,
    Profile,
    Prompt,
    Season,
    SeasonBrief,
    Submission,
    SubmissionBrief,
    SubmissionBriefPage,
)
from .runs import Runs
from .transport import Transport, decode


class Client:
    """One site, one token; a context manager.

    with Client("https://pkb.example.org", token="pkb_...") as pkb:
        submission = pkb.submit("allreduce", "solution.py", profile="cpux2")
        print(pkb.wait(submission.id).evaluation.verdict)
    """

    def __init__(
        self,
        site: str,
        *,
        token: str | None = None,
        timeout_s: float = 60.0,
        patience_s: float = 120.0,
        say: Callable[[str], None] = lambda _text: None,
    ) -> None:
        """`patience_s` is how long one call may wait and try again; `say` gets a message of each retry.

        Raises:
            UsageError: `site` is no address.
        """
        self.transport = Transport(site, token=token, timeout_s=timeout_s, patience_s=patience_s, say=say)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection."""
        self.transport.close()

    @property
    def site(self) -> str:
        """The address of the site."""
        return self.transport.site

    @property
    def runs(self) -> Runs:
        """Runs of models."""
        return Runs(self.transport)

    def me(self) -> Me:
        """Who is calling, and how much of the queue is theirs."""
        return self.transport.get("me/", Me)

    def allowance(self, *, organisation: str | None = None) -> list[Forecast]:
        """What one more evaluation would cost on each profile: an own one, or one of an organisation's runs."""
        path = f"organisations/{organisation}/allowance/" if organisation else "me/allowance/"
        return self.transport.get(path, list[Forecast])

    def problems(self) -> list[ProblemBrief]:
        """Every problem by number."""
        return self.transport.get("problems/", list[ProblemBrief])

    def problem(self, slug: str, *, hints: bool = False) -> Problem:
        """One problem with statement and reference; with `hints` also what makes a kernel fast."""
        return self.transport.get(f"problems/{slug}/", Problem, params={"hints": "true"} if hints else {})

    def prompt(
        self, slug: str, *, backend: str = "pytorch", profile: str = "cpux2", version: str | None = None
    ) -> Prompt:
        """The task as a model is given it; without `version`, one-shot and without hints."""
        params = {"backend": backend, "profile": profile} | ({"version": version} if version else {})
        return self.transport.get(f"problems/{slug}/prompt/", Prompt, params=params)

    def profiles(self) -> list[Profile]:
        """Every profile, and how many slots take work there now."""
        return self.transport.get("profiles/", list[Profile])

    def seasons(self) -> list[SeasonBrief]:
        """Every season, the one that closes last first."""
        return self.transport.get("seasons/", list[SeasonBrief])

    def season(self, slug: str, *, code: str = "") -> Season:
        """One season with its rules and standings; `code` is its code, unless everybody sees it."""
        return self.transport.get(f"seasons/{slug}/", Season, params={"code": code} if code else {})

    def define_season(self, values: Mapping[str, Any]) -> Season:
        """A draft of a season from its fields, or the change of the one of that slug that you run."""
        return decode(self.transport.request("POST", "seasons/", json=values, is_repeatable=True), Season)

    def take_season_step(self, slug: str, step: str) -> None:
        """Take the next step of a season that you run, such as `publish` or `end`."""
        self.transport.request("POST", f"seasons/{slug}/steps/", json={"step": step})

    def join_season(self, slug: str, *, code: str = "", organisation: str | None = None) -> None:
        """Take part, alone or for an organisation; `Season.sources_read_by` says who then reads your sources."""
        body = {"code": code} | ({"organisation": organisation} if organisation else {})
        self.transport.request("POST", f"seasons/{slug}/join/", json=body)

    def submit(
        self,
        problem: str,
        source: str | Path,
        *,
        profile: str,
        backend: str = "pytorch",
        mode: str = "ranked",
        visibility: str = "private",
        note: str = "",
        notes: str = "",
        built_on: str = "",
        node_owner: str = "",
        size: str = "",
        key: str | None = None,
    ) -> Submission:
        """Submit a .py file, a .zip or a folder by its path. The same `key` again gives the same submission.

        `size` is the one size of mode profile. `notes` are Markdown for readers of the submission's page, `built_on` is
        the id of an earlier submission that is public or your own.
        """
        upload = upload_of(Path(source))
        optional = {"node_owner": node_owner, "size": size, "notes": notes, "built_on": built_on}
        return self._submit(
            upload,
            key,
            problem=problem,
            profile=profile,
            backend=backend,
            mode=mode,
            visibility=visibility,
            note=note,
            # Left out where it says nothing: a site of an earlier version refuses fields that it does not know.
            **{name: value for name, value in optional.items() if value},
        )

    def submit_text(
        self,
        problem: str,
        text: str,
        *,
        profile: str,
        backend: str = "pytorch",
        mode: str = "ranked",
        visibility: str = "private",
        note: str = "",
        key: str | None = None,
    ) -> Submission:
        """Submit the text of solution.py."""
        upload = upload_of_text(text)
        return self._submit(
            upload, key, problem=problem, profile=profile, backend=backend, mode=mode, visibility=visibility, note=note
        )

    def _submit(self, upload: Upload, key: str | None, **fields: str) -> Submission:
        # A key of our own lets a call whose answer got lost be sent again.
        headers = {"Idempotency-Key": key or f"pkb-{uuid.uuid4()}"}
        answer = self.transport.request("POST", "submissions/", form=fields, file=upload, headers=headers)
        return decode(answer, Submission)

    def submission(self, submission_id: str) -> Submission:
        """One submission with its newest evaluation."""
        return self.transport.get(f"submissions/{identifier(submission_id)}/", Submission)

    def submissions(
        self, *, problem: str | None = None, state: str | None = None, verdict: str | None = None
    ) -> Iterator[SubmissionBrief]:
        """One's own submissions, the newest first; further pages are fetched as one goes on."""
        wanted = {"problem": problem, "state": state, "verdict": verdict}
        params = {name: value for name, value in wanted.items() if value is not None}
        page = self.transport.get("submissions/", SubmissionBriefPage, params={**params, "page_size": 100})
        yield from page.results
        while page.next:
            page = self.transport.get(page.next, SubmissionBriefPage)
            yield from page.results

    def watch(self, submission_id: str) -> Iterator[Submission]:
        """The submission now, and again each time that something of it changed, until its evaluation has ended."""
        address = f"submissions/{identifier(submission_id)}/"
        tag = ""
        # Something that just changed often changes again at once; then as slowly as the site asks for.
        pause_s, longest_s = 0.5, 2.0
        while True:
            answer = self.transport.request("GET", address, headers={"If-None-Match": tag} if tag else None)
            if answer.status_code != 304:
                tag = answer.headers.get("ETag", "")
                submission = decode(answer, Submission)
                yield submission
                if has_ended(submission.evaluation):
                    return
                pause_s, longest_s = 0.5, submission.evaluation.poll_after_s or longest_s
            time.sleep(min(pause_s, longest_s))
            pause_s *= 1.5

    def wait(self, submission_id: str) -> Submission:
        """The submission once its newest evaluation has ended."""
        *_, last = self.watch(submission_id)
        return last

    def cancel(self, submission_id: str) -> Submission:
        """End the newest evaluation of a submission."""
        address = f"submissions/{identifier(submission_id)}/cancel/"
        return decode(self.transport.request("POST", address), Submission)
