"""`pkb login`, `logout`, `allowance`, `problems`, `prompt` and `prompts`."""

import sys
from pathlib import Path

import click
import httpx
import msgspec

from . import credentials, output
from .client import Client
from .context import Context, with_context
from .errors import UsageError
from .prompt_sets import from_site
from .results import Forecast
from .submission_commands import backend_option, hints_option, only_profile, profile_option, prompt_option
from .transport import site_address


@click.command()
@click.argument("address", required=False)
@with_context
def login(context: Context, address: str | None) -> None:
    """Store a token for the site at ADDRESS. The command asks for the token or reads it from standard input."""
    site = site_address(address or context.site or _asked("Site", is_secret=False))
    token = context.token or _asked(f"Token (created at {site}/accounts/)", is_secret=True)
    if not token.isascii() or not token.isprintable() or not token:
        raise UsageError("That is not a token. Copy all of it; it starts with pkb_.")
    with Client(site, token=token, patience_s=context.patience_s, say=output.say) as pkb:
        me = pkb.me()
    if site.startswith("http://") and httpx.URL(site).host not in {"127.0.0.1", "localhost", "::1"}:
        output.say(f"Warning: the token is sent to {site} unencrypted. Use https:// if the site has it.")
    path = credentials.store(credentials.load().with_token(site, token))
    if context.as_json:
        output.print_json(me)
        return
    scopes = ", ".join(me.token.scopes) if me.token else "none"
    output.print_text(f"Signed in to {site} as {me.username} (scopes {scopes}); the token is in {path}.")


@click.command()
@with_context
def logout(context: Context) -> None:
    """Forget the token of a site. It stays valid until it is revoked on the account page."""
    site, _ = credentials.site_and_token(context.site, None)
    credentials.store(credentials.load().without(site))
    if context.as_json:
        output.print_json({"site": site})
    else:
        output.print_text(f"Forgot the token of {site}.")


@click.command()
@click.option(
    "--organisation", metavar="NAME", help="Show the allowance of this organisation's runs instead of your own."
)
@click.option("--profile", help="Show only this profile, in sentences.")
@with_context
def allowance(context: Context, *, organisation: str | None, profile: str | None) -> None:
    """Show the cost of one evaluation on each profile, what is left today, and when it renews."""
    with context.client() as pkb:
        found = pkb.allowance(organisation=organisation)
    chosen = [one for one in found if profile in (None, one.profile)]
    if not chosen:
        raise UsageError(f"There is no profile {profile}. Choose one of {', '.join(one.profile for one in found)}.")
    if context.as_json:
        output.print_json(chosen)
    elif profile is not None:
        output.print_text(f"{profile}: {chosen[0].words}")
    else:
        head = ("profile", "usual GPU-s", "at most", "left", "evaluations left", "next renewal")
        output.print_table(head, [_allowance_row(one) for one in chosen])


def _allowance_row(one: Forecast) -> tuple[str, ...]:
    fit = "no limit" if one.judgements is None else str(one.judgements)
    if not one.price.gpus:
        return (one.profile, "none", "", "", fit, "")
    left = "no limit" if one.remaining_gpu_s is None else f"{one.remaining_gpu_s:.0f}"
    again = f"{one.renews_at:%Y-%m-%d %H:%M} UTC" if one.renews_at else ""
    return (one.profile, f"{one.price.usual_gpu_s:.0f}", f"{one.price.at_most_gpu_s:.0f}", left, fit, again)


@click.command()
@click.argument("slug", required=False)
@hints_option
@with_context
def problems(context: Context, slug: str | None, *, hints: bool) -> None:
    """List the problems, or show the problem SLUG with statement and reference."""
    with context.client() as pkb:
        if slug is not None:
            problem = pkb.problem(slug, hints=hints)
            if context.as_json:
                output.print_json(problem)
            else:
                output.print_text(f"{problem.number} {problem.title}\n\n{problem.statement}\n\n{problem.reference}")
            return
        every = pkb.problems()
    if context.as_json:
        output.print_json(every)
        return
    rows = [(str(entry.number), entry.slug, entry.title, "open" if entry.is_open else "paused") for entry in every]
    output.print_table(("number", "slug", "title", "state"), rows)


@click.command()
@click.argument("slug")
@profile_option
@backend_option
@prompt_option
@with_context
def prompt(context: Context, slug: str, *, profile: str | None, backend: str, prompt_version: str | None) -> None:
    """Print the prompt that a model gets for the problem SLUG."""
    with context.client() as pkb:
        came = pkb.prompt(slug, backend=backend, profile=profile or only_profile(pkb), version=prompt_version)
    if context.as_json:
        output.print_json(came)
    else:
        output.print_text(came.text)


@click.command()
@click.argument("path", type=click.Path(path_type=Path, dir_okay=False))
@profile_option
@backend_option
@prompt_option
@with_context
def prompts(context: Context, path: Path, *, profile: str | None, backend: str, prompt_version: str | None) -> None:
    """Write the prompts of all problems to PATH, one JSON object per line: a data set for harnesses without a site."""
    with context.client() as pkb:
        rows = from_site(pkb, profile=profile or only_profile(pkb), backend=backend, version=prompt_version)
    draft = path.with_name(f".{path.name}.part")
    draft.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
    draft.replace(path)
    if context.as_json:
        output.print_json({"path": str(path), "prompts": len(rows)})
    else:
        output.print_text(f"Wrote {len(rows)} prompts to {path}.")


def _asked(what: str, *, is_secret: bool) -> str:
    """An answer from the terminal, or the next line of standard input."""
    if sys.stdin.isatty():
        answer: str = click.prompt(what, hide_input=is_secret, err=True)
        return answer.strip()
    return sys.stdin.readline().strip()
