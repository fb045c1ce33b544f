"""`pkb run ...` and `pkb import-tree`."""

import io
import sys
import zipfile
from pathlib import Path
from typing import Any

import click
import msgspec

from . import output
from .context import Context, with_context
from .errors import ExitCode, UsageError
from .outcomes import speedup
from .results import EventPage, Figures, ImportPreview, LineResult, Run, RunBrief
from .runs import NewRun
from .submission_commands import BACKENDS, backend_option
from .trajectories import attempts_of
from .uploads import Uploaded, journal_path, upload

RUN_MODES = ("single_shot", "best_of_k", "agentic")
_FEW = 20


@click.group()
def run() -> None:
    """Runs of a model: create, fill, follow, publish, export."""


@run.command()
@click.option("--model", required=True, help="The model's name.")
@click.option("--version", "model_version", default="", help="The model's version.")
@click.option("--provider", default="", help="The model's provider.")
@click.option("--organisation", help="The organisation that owns the run. Default: your own.")
@click.option("--mode", type=click.Choice(RUN_MODES), default="single_shot", show_default=True)
@click.option("--profile", envvar="PKB_PROFILE", required=True, help="The profile to judge on.")
@backend_option
@click.option("--k", type=click.IntRange(min=1), default=1, show_default=True, help="Samples per problem.")
@click.option("--sampling", multiple=True, metavar="NAME=VALUE", help="A sampling setting, such as temperature=0.8.")
@click.option("--prompt-version", default="", help="The version of the prompt that the model got.")
@click.option("--cost-usd", type=click.FloatRange(min=0), help="The cost of the run.")
@click.option("--notes", default="")
@click.option("--key", help="An idempotency key. The same key again returns the same run.")
@with_context
def create(context: Context, *, model_version: str, sampling: tuple[str, ...], key: str | None, **fields: Any) -> None:
    """Create a run. It is private until it is published."""
    new = NewRun(version=model_version, sampling=settings_of(sampling), **fields)
    with context.client() as pkb:
        shown(context, pkb.runs.create(new, key=key))


@run.command("list")
@click.option("--model", help="Only runs of the model with this slug.")
@click.option("--state", type=click.Choice(("draft", "published")))
@with_context
def list_runs(context: Context, *, model: str | None, state: str | None) -> None:
    """List published and own runs, newest first; with --json one per line."""
    rows = []
    with context.client() as pkb:
        for entry in pkb.runs.list(model=model, state=state):
            if context.as_json:
                output.print_json(entry)
            attempts = f"{entry.attempts - entry.pending}/{entry.attempts}"
            rows.append((entry.id, entry.model.slug, entry.mode, entry.profile, attempts, entry.state))
    if not context.as_json:
        output.print_table(("id", "model", "mode", "profile", "judged", "state"), rows)


@run.command()
@click.argument("run_id", metavar="RUN")
@with_context
def show(context: Context, *, run_id: str) -> None:
    """Show RUN: its attempts and figures."""
    with context.client() as pkb:
        shown(context, pkb.runs.get(run_id))


@run.command("upload")
@click.argument("run_id", metavar="RUN")
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@with_context
def upload_attempts(context: Context, *, run_id: str, path: Path) -> ExitCode:
    """Add the attempts in PATH to RUN: a .jsonl file, or solution.py in SLUG/SAMPLE[/STEP], as a folder or .zip.

    A journal next to PATH records what the site has stored. After an interruption the same command resumes.
    """
    with context.client() as pkb, output.progress(is_bytes=True) as bar:
        task = bar.add_task("uploading", total=None)
        uploaded = upload(
            pkb.runs,
            run_id,
            path,
            starting=lambda total: bar.update(task, total=total, completed=0),
            moved=lambda sent: bar.update(task, completed=sent),
        )
    if context.as_json:
        output.print_json({"counts": uploaded.counts, "sent": uploaded.sent, "results": uploaded.results})
    else:
        counts = ", ".join(f"{number} {status}" for status, number in sorted(uploaded.counts.items())) or "none"
        output.print_text(f"{path}: {counts} of {len(uploaded.results)}; sent by this call: {uploaded.sent}")
    _say_refused(uploaded, path)
    return ExitCode.REFUSED if uploaded.refused else ExitCode.OK


def _say_refused(uploaded: Uploaded, path: Path) -> None:
    """The lines that the site refused, and the remedy."""
    refused = uploaded.refused
    for result in refused[:_FEW]:
        output.say(f"{result.key}: {result.status}{_reasons(result)}")
    if len(refused) > _FEW:
        output.say(f"... and {len(refused) - _FEW} more; all are in {journal_path(path)}, or use --json.")
    if any(result.status == "over_quota" for result in refused):
        when = f"in {uploaded.retry_after_s:.0f} s" if uploaded.retry_after_s else "later"
        output.say(f"Run the same command {when} to send the attempts that are over quota.")


def _reasons(result: LineResult) -> str:
    return "".join(f"; {error.field} {error.value!r}: {error.message} {error.remedy}" for error in result.errors)


@run.command()
@click.argument("run_id", metavar="RUN")
@click.option("--after", type=click.IntRange(min=0), default=0, help="Only events after this number.")
@with_context
def watch(context: Context, *, run_id: str, after: int) -> None:
    """Print each result of RUN as it comes, until none is pending; with --json one event per line."""
    with context.client() as pkb, output.progress() as bar:
        task = bar.add_task("judged", total=None)
        profile = "" if context.as_json else pkb.runs.get(run_id).profile
        for page in pkb.runs.watch(run_id, after=after):
            bar.update(task, total=page.total, completed=page.total - page.pending)
            _say_events(context, page, profile=profile)
        if not context.as_json:
            shown(context, pkb.runs.get(run_id))


def _say_events(context: Context, page: EventPage, *, profile: str) -> None:
    for event in page.events:
        if context.as_json:
            output.print_json(event)
        elif event.kind == "attempt.ended":
            said = speedup(event.score, event.score_low, event.score_high, profile=profile)
            output.print_text(f"{event.key}: {event.verdict}" + ("" if event.score is None else f", {said}"))


@run.command()
@click.argument("run_id", metavar="RUN")
@click.option("--sources", type=click.Choice(("public", "private")), default="public", show_default=True)
@with_context
def publish(context: Context, *, run_id: str, sources: str) -> None:
    """Publish RUN permanently. Nothing can be added afterwards."""
    with context.client() as pkb:
        shown(context, pkb.runs.publish(run_id, sources=sources))


@run.command()
@click.argument("run_id", metavar="RUN")
@click.option("--format", "format_name", type=click.Choice(("csv", "jsonl")), default="jsonl")
@click.option("--output", "path", type=click.Path(path_type=Path), help="The file to write. Default: standard output.")
@with_context
def export(context: Context, *, run_id: str, format_name: str, path: Path | None) -> None:
    """Write the attempts of RUN with their results, one per row."""
    with context.client() as pkb:
        if path is None:
            pkb.runs.export(run_id, sys.stdout.buffer, format=format_name)
            return
        draft = path.with_name(f".{path.name}.part")
        with draft.open("wb") as file:
            size = pkb.runs.export(run_id, file, format=format_name)
        draft.replace(path)
    if context.as_json:
        output.print_json({"path": str(path), "bytes": size})
    else:
        output.print_text(f"Wrote {size} bytes to {path}.")


@click.command("import-tree")
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--profile",
    envvar="PKB_PROFILE",
    help="The profile to judge on. Required if the folder's name does not give one profile.",
)
@click.option("--organisation", help="The organisation that owns the run. Default: your own.")
@click.option("--model", help="The model's name.")
@click.option("--version", help="The model's version.")
@click.option("--provider", help="The model's provider.")
@click.option("--backend", type=click.Choice(BACKENDS), help="The backend that the model was asked for.")
@click.option("--program-backend", type=click.Choice(BACKENDS), help="The backend to judge every program as.")
@click.option("--problem", "problems", multiple=True, metavar="FILE=SLUG", help="The problem of a file.")
@click.option("--notes", help="Public.")
@click.option("--yes", is_flag=True, help="Create the run without asking.")
@with_context
def import_tree(
    context: Context, *, path: Path, problems: tuple[str, ...], yes: bool, **fields: str | None
) -> ExitCode:
    """Create a run from a solution tree: a folder or .zip named like the public harness's output.

    PATH is solutions_<backend>_<precision>_<gpu>_<ranks>_<vendor>_<model> with <number>_<name>_<backend>.py in it. What
    the names and texts say is shown first and the run is made after a yes; what an option says counts instead. The
    exit status is 3 if a file matched no problem or a field is missing.
    """
    chosen = {name: value for name, value in fields.items() if value is not None}
    if problems:
        chosen["problems"] = ",".join(problems)
    name, content = _tree(path)
    with context.client() as pkb:
        understood = pkb.runs.preview_tree(name, content, chosen)
        if not (context.as_json and yes):
            _say_understood(context, understood)
        if understood.lacking:
            return ExitCode.REFUSED
        if not yes and not _is_confirmed(context):
            return ExitCode.REFUSED if understood.unmatched else ExitCode.OK
        came = pkb.runs.import_tree(name, content, chosen)
    if context.as_json:
        output.print_json(came)
    else:
        shown(context, came.run)
    return ExitCode.REFUSED if came.unmatched or came.bulk.refused else ExitCode.OK


@click.command("import-trajectory")
@click.argument("path", type=click.Path(exists=True, path_type=Path, dir_okay=False))
@click.option("--problem", required=True, help="The slug of the problem that the agent worked on.")
@click.option("--sample", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--final", type=click.Path(exists=True, path_type=Path, dir_okay=False), help="The program that counts.")
def import_trajectory(path: Path, *, problem: str, sample: int, final: Path | None) -> None:
    """Print the attempts in PATH, a trajectory of mini-SWE-agent, as JSON Lines for `pkb run upload`.

    Every program that the agent wrote whole is a step in mode check. The last one, or --final, is ranked.
    """
    for attempt in attempts_of(path, problem=problem, sample=sample, final=final):
        output.print_json(attempt)


def _is_confirmed(context: Context) -> bool:
    """Whether the user at a terminal confirms; without a terminal, how to confirm."""
    if sys.stdin.isatty() and not context.as_json:
        return click.confirm("Create this run?", err=True)
    output.say("No run was created; add --yes to create it.")
    return False


def _say_understood(context: Context, understood: ImportPreview) -> None:
    """What the site would make of the tree, and what it lacks."""
    if context.as_json:
        output.print_json(understood)
        return
    run = understood.run
    rows = [
        (match.path, match.problem, match.backend, f"by {match.by} {match.note}".strip())
        for match in understood.matched
    ]
    rows += [(missing.path, "", "", missing.reason) for missing in understood.unmatched]
    output.print_table(("file", "problem", "backend", "how"), rows)
    for part in ("model", "version", "provider", "organisation", "profile", "notes"):
        output.print_text(f"{part}: {getattr(run, part) or 'not given'}")
    written = ", ".join(f"{number} {backend}" for backend, number in understood.backends.items())
    output.print_text(f"asked for: {run.backend}; written in: {written}")
    for refused in understood.lacking:
        output.say(f"{refused.message} {refused.remedy}")


def _tree(path: Path) -> tuple[str, bytes]:
    """A tree as a zip whose only folder has the tree's name."""
    if not path.is_dir():
        return path.name, path.read_bytes()
    name = path.resolve().name
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for found in sorted(path.rglob("*.py")):
            archive.writestr(f"{name}/{found.relative_to(path).as_posix()}", found.read_bytes())
    return f"{name}.zip", buffer.getvalue()


def shown(context: Context, entry: Run | RunBrief) -> None:
    """Print a run."""
    if context.as_json:
        output.print_json(entry)
        return
    output.print_text(f"{entry.id} {entry.model.slug}, {entry.mode}, {entry.backend} on {entry.profile}, {entry.state}")
    output.print_text(f"attempts: {entry.attempts}, of them pending: {entry.pending}; {entry.page}")
    if isinstance(entry, Run) and entry.attempts:
        figures = entry.figures
        speed = "" if figures.geomean_speedup is None else f", as a geometric mean {speedup(figures.geomean_speedup)}"
        cost = "" if figures.cost_usd is None else f", {figures.cost_usd:.2f} US dollars"
        solved = f"{figures.solved} of {figures.problems} solved, {figures.faster} faster than the reference"
        output.print_text(f"{solved}{speed}{cost}")
        if not figures.is_complete:
            output.print_text(
                f"incomplete, so not ranked: {figures.judged} of {figures.programs} programs judged; correct@1 between "
                f"{figures.bounds.low:.1%} and {figures.bounds.high:.1%} over all {figures.problems} problems"
            )
        output.print_text(", ".join(f"{number} {ending}" for ending, number in endings(figures).items()))


def endings(figures: Figures) -> dict[str, int]:
    """How the samples ended, those without a verdict by what they wait for; what no sample came to is left out."""
    counted = {
        **figures.verdicts,
        "pending": figures.pending,
        "no ranked result": figures.unranked,
        "missing": figures.missing,
    }
    return {ending: number for ending, number in counted.items() if number}


def settings_of(pairs: tuple[str, ...]) -> dict[str, Any]:
    """Sampling settings from NAME=VALUE; a value that is JSON is taken as such. Raises UsageError."""
    settings: dict[str, Any] = {}
    for pair in pairs:
        name, is_given, value = pair.partition("=")
        if not is_given or not name:
            raise UsageError(f"--sampling {pair!r} is not NAME=VALUE; write it as temperature=0.8.")
        try:
            settings[name] = msgspec.json.decode(value)
        except msgspec.DecodeError:
            settings[name] = value
    return settings
