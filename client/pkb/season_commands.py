"""`pkb season`: list, read, join, and open seasons."""

import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from . import output
from .context import Context, with_context
from .errors import UsageError
from .results import Season, SeasonTeam

STEPS = ("publish", "open", "delete", "end", "retry", "rejudge", "finish", "finish_despite_failures")
_code_option = click.option("--code", default="", help="The season's code, unless everybody sees it.")


@click.group()
def season() -> None:
    """Contests over several problems: read one, join it, run one."""


@season.command("list")
@with_context
def list_seasons(context: Context) -> None:
    """List the seasons that you find, the one that closes last first."""
    with context.client() as pkb:
        every = pkb.seasons()
    if context.as_json:
        output.print_json(every)
        return
    rows = [(each.slug, each.phase, each.profile, f"{each.closes_at:%Y-%m-%d %H:%M}", each.title) for each in every]
    output.print_table(("slug", "phase", "profile", "closes (UTC)", "title"), rows)


@season.command()
@click.argument("slug")
@_code_option
@with_context
def show(context: Context, *, slug: str, code: str) -> None:
    """Show a season: time left, problems, what counts, who reads sources, its text."""
    with context.client() as pkb:
        _shown(context, pkb.season(slug, code=code))


def _shown(context: Context, chosen: Season) -> None:
    if context.as_json:
        output.print_json(chosen)
        return
    left = f", {chosen.seconds_left / 3600:.1f} h left" if chosen.seconds_left else ""
    counts = "the score" if chosen.is_ranked_by_speed else "the number of problems solved, then time"
    lines = [
        f"{chosen.title}: {chosen.phase}{left}",
        chosen.page,
        f"From {chosen.opens_at:%Y-%m-%d %H:%M} to {chosen.closes_at:%Y-%m-%d %H:%M} UTC on {chosen.profile}.",
        f"Problems: {', '.join(chosen.problems)}",
        f"What counts: {counts}.",
        *([f"Changed since it was published: {', '.join(chosen.changed_problems)}"] if chosen.changed_problems else ()),
        f"Who reads sources: {chosen.sources_read_by}",
        *([f"Code: {chosen.code}"] if chosen.code else ()),
        *(["", chosen.rules] if chosen.rules else ()),
    ]
    output.print_text("\n".join(lines))


@season.command()
@click.argument("slug")
@_code_option
@with_context
def board(context: Context, *, slug: str, code: str) -> None:
    """Print the standings, the best team first; with --json each team's best entries too."""
    with context.client() as pkb:
        chosen = pkb.season(slug, code=code)
    if context.as_json:
        output.print_json(chosen.standings)
        return
    rows = [_line(each, by_speed=chosen.is_ranked_by_speed, problems=chosen.problems) for each in chosen.standings]
    output.print_table(("place", "team", "score", "solved", *chosen.problems), rows)
    if chosen.hides_board and not rows:
        output.say("What others have reached is shown after the end.")


def _line(team: SeasonTeam, *, by_speed: bool, problems: list[str]) -> tuple[str, ...]:
    reached = {each.problem: "solved" if each.score is None else f"{each.score:.3f}" for each in team.results}
    score = f"{team.score:.3f}" if by_speed else ""
    place = str(team.place) if team.solved else ""
    return (place, team.team, score, str(team.solved), *(reached.get(problem, "") for problem in problems))


@season.command()
@click.argument("slug")
@_code_option
@click.option("--organisation", help="Join the team of this organisation; without it alone.")
@click.option("--yes", is_flag=True, help="Join without asking.")
@with_context
def join(context: Context, *, slug: str, code: str, organisation: str | None, yes: bool) -> None:
    """Take part in a season, after reading who will read your sources."""
    with context.client() as pkb:
        chosen = pkb.season(slug, code=code)
        output.say(f"Who reads your sources: {chosen.sources_read_by}")
        if not yes:
            if not sys.stdin.isatty() or context.as_json:
                raise UsageError("You have not joined; add --yes to join without being asked.")
            click.confirm(f"Join {chosen.title}?", err=True, abort=True)
        pkb.join_season(slug, code=code, organisation=organisation)
        joined = pkb.season(slug)
    if context.as_json:
        output.print_json(joined)
    else:
        output.print_text(f"You take part in {joined.title}. Ranked submissions on {joined.profile} are entries.")


@season.command("open")
@click.argument("path", type=click.Path(exists=True, path_type=Path, dir_okay=False))
@click.option("--publish", is_flag=True, help="Publish the draft: it opens at its time.")
@with_context
def open_season(context: Context, *, path: Path, publish: bool) -> None:
    """Make a season from a .json or .toml file, or change one. It is a draft that its owners see until published."""
    values = _definition(path)
    with context.client() as pkb:
        made = pkb.define_season(values)
        if publish and made.phase == "draft":
            pkb.take_season_step(made.slug, "publish")
            made = pkb.season(made.slug)
    _shown(context, made)


def _definition(path: Path) -> dict[str, Any]:
    """The fields in a file; raises UsageError."""
    decode = {".json": msgspec.json.decode, ".toml": msgspec.toml.decode}.get(path.suffix.lower())
    if decode is None:
        raise UsageError(f"{path} is neither .json nor .toml. Write the season as one of them.")
    try:
        return decode(path.read_bytes(), type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, OSError) as error:
        raise UsageError(f"{path} cannot be read: {error}. docs/seasons.md has an example.") from error


@season.command()
@click.argument("slug")
@click.argument("name", metavar="STEP", type=click.Choice(STEPS))
@with_context
def step(context: Context, *, slug: str, name: str) -> None:
    """Publish, open, end or delete a season that you run, judge it again, or make its standings final."""
    with context.client() as pkb:
        pkb.take_season_step(slug, name)
    if context.as_json:
        output.print_json({"season": slug, "step": name})
    else:
        output.print_text(f"{slug}: {name} done.")
