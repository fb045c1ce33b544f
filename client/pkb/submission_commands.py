"""`pkb submit`, `status`, `submissions` and `cancel`."""

from pathlib import Path
from typing import TextIO

import click

from . import output
from .client import Client
from .context import Context, with_context
from .diagnosis import diagnosis, headline
from .errors import ExitCode, UsageError
from .outcomes import has_ended, has_passed, speedup
from .results import Submission

BACKENDS = ("pytorch", "cuda", "triton", "nvshmem", "nccl_device")
MODES = ("check", "profile", "benchmark", "ranked", "sweep", "published")
SIZES = ("tiny", "base", "large")
profile_option = click.option(
    "--profile",
    envvar="PKB_PROFILE",
    help="The profile to judge on, such as h200x8-nomc. Default: the only one online.",
)
backend_option = click.option("--backend", type=click.Choice(BACKENDS), default="pytorch", show_default=True)
prompt_option = click.option(
    "--prompt-version", help="A version of the site's prompt. Default: the task without hints."
)

hints_option = click.option("--hints", is_flag=True, help="Also what makes a kernel fast, and how inputs are drawn.")


def _written(_context: click.Context, _option: click.Parameter, file: TextIO | None) -> str:
    """The text of a file that an option names; empty without one."""
    if file is None:
        return ""
    try:
        return file.read()
    except UnicodeDecodeError as error:
        raise UsageError(f"{file.name} is not text in UTF-8: see byte {error.start}. Save it as UTF-8.") from error


@click.command()
@click.argument("slug")
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@profile_option
@backend_option
@click.option("--mode", type=click.Choice(MODES), default="ranked", show_default=True)
@click.option("--size", type=click.Choice(SIZES), help="The one size to record (mode profile). Default: the mode's.")
@click.option("--visibility", type=click.Choice(("private", "public")), default="private", show_default=True)
@click.option("--note", default="", help="A note that only you see.")
@click.option("--notes", type=click.File(encoding="utf-8"), callback=_written, help="Markdown for readers of its page.")
@click.option("--built-on", default="", metavar="ID", help="An earlier submission, public or yours.")
@click.option("--node-owner", default="", help="An organisation whose guest nodes judge it. It can read the source.")
@click.option("--key", help="An idempotency key. The same key again returns the same submission.")
@click.option("--watch", is_flag=True, help="Wait for the verdict; the exit status is 0 exactly when it is PASSED.")
@with_context
def submit(
    context: Context,
    slug: str,
    path: Path,
    *,
    profile: str | None,
    backend: str,
    mode: str,
    size: str | None,
    visibility: str,
    note: str,
    notes: str,
    built_on: str,
    node_owner: str,
    key: str | None,
    watch: bool,
) -> ExitCode:
    """Submit PATH (a .py file, a .zip or a folder with solution.py) for the problem SLUG."""
    with context.client() as pkb:
        submission = pkb.submit(
            slug,
            path,
            profile=profile or only_profile(pkb),
            backend=backend,
            mode=mode,
            visibility=visibility,
            note=note,
            notes=notes,
            built_on=built_on,
            node_owner=node_owner,
            size=size or "",
            key=key,
        )
        if watch:
            output.say(f"Submission {submission.id}; `pkb status {submission.id} --watch` follows it too.")
            submission = followed(pkb, submission.id)
    return shown(context, submission)


@click.command()
@click.argument("submission_id", metavar="ID")
@click.option("--watch", is_flag=True, help="Wait for the verdict.")
@with_context
def status(context: Context, submission_id: str, *, watch: bool) -> ExitCode:
    """Show the submission ID: its position in the queue, its stage, or its verdict with the diagnosis."""
    with context.client() as pkb:
        submission = followed(pkb, submission_id) if watch else pkb.submission(submission_id)
    return shown(context, submission)


@click.command()
@click.argument("submission_id", metavar="ID")
@with_context
def cancel(context: Context, submission_id: str) -> None:
    """Cancel the newest evaluation of the submission ID."""
    with context.client() as pkb:
        submission = pkb.cancel(submission_id)
    if context.as_json:
        output.print_json(submission)
    else:
        output.print_text(headline(submission.evaluation))


@click.command()
@click.option("--problem", help="Only submissions for this problem.")
@click.option("--state", help="Only submissions whose newest evaluation is in this state.")
@click.option("--verdict", help="Only submissions whose newest evaluation has this verdict.")
@with_context
def submissions(context: Context, *, problem: str | None, state: str | None, verdict: str | None) -> None:
    """List your submissions, newest first; with --json one per line."""
    with context.client() as pkb:
        rows = []
        for entry in pkb.submissions(problem=problem, state=state, verdict=verdict):
            if context.as_json:
                output.print_json(entry)
            newest = entry.evaluations[0]
            ends = (newest.score_low, newest.score_high)
            score = "" if newest.score is None else speedup(newest.score, *ends, profile=newest.profile)
            rows.append((entry.id, entry.problem, newest.profile, newest.mode, newest.verdict or newest.state, score))
    if not context.as_json:
        output.print_table(("id", "problem", "profile", "mode", "verdict", "score"), rows)


def followed(pkb: Client, submission_id: str) -> Submission:
    """The submission once it has ended, with what the judge does on a line of its own until then."""
    with output.errors.status("asking ...") as line:
        for submission in pkb.watch(submission_id):
            line.update(headline(submission.evaluation))
    return submission


def shown(context: Context, submission: Submission) -> ExitCode:
    """Print a submission; the exit status that its verdict deserves."""
    if context.as_json:
        output.print_json(submission)
    else:
        output.print_text(f"{submission.id} {submission.problem}\n{diagnosis(submission.evaluation)}")
        if submission.evaluation.node_owner:
            output.print_text(f"judged by a guest node of {submission.evaluation.node_owner}, not by the site")
        for entry in submission.seasons:
            said = f"counts for {entry.team}" if entry.counts else f"does not count: {entry.message}"
            output.print_text(f"season {entry.season}: {said}")
    has_failed = has_ended(submission.evaluation) and not has_passed(submission.evaluation)
    return ExitCode.NOT_PASSED if has_failed else ExitCode.OK


def only_profile(pkb: Client) -> str:
    """The one profile that a node judges now; raises UsageError where there are several or none."""
    online = [profile.name for profile in pkb.profiles() if profile.slots_online]
    if len(online) == 1:
        return online[0]
    known = f"Online are {', '.join(online)}." if online else "No node is online; `pkb submit --profile` queues anyway."
    raise UsageError(f"Choose a profile with --profile. {known}")
