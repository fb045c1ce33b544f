"""`pkb init` and `pkb judge`: working on a problem in your own folder."""

import os
import subprocess
import sys
from pathlib import Path

import click

from . import output
from .context import Context, with_context
from .errors import ExitCode, UsageError
from .problem_folder import ProblemFolder
from .submission_commands import MODES, backend_option, hints_option


@click.command("init")
@click.argument("slug")
@click.argument("folder", required=False, type=click.Path(path_type=Path, file_okay=False))
@backend_option
@click.option("--force", is_flag=True, help="Replace existing files.")
@hints_option
@with_context
def init(context: Context, slug: str, folder: Path | None, *, backend: str, force: bool, hints: bool) -> None:
    """Create a folder for work on the problem SLUG: starter, statement, reference, a local test, a guide for agents."""
    with context.client() as pkb:
        problem = pkb.problem(slug, hints=hints)
    wanted = ProblemFolder(folder=folder or Path(slug), backend=backend, replaces=force)
    paths = wanted.write(problem)
    if context.as_json:
        output.print_json({"folder": str(wanted.folder), "files": [path.name for path in paths]})
        return
    output.print_text(f"{problem.title}: wrote {', '.join(path.name for path in paths)} to {wanted.folder}/")
    output.print_text(f"Next: cd {wanted.folder}; edit solution.py; pkb submit {slug} solution.py --mode check --watch")


@click.command("judge")
@click.argument("slug")
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--profile",
    default="cpux2",
    show_default=True,
    help="The profile to judge on. This machine must have its hardware.",
)
@backend_option
@click.option("--mode", type=click.Choice(MODES), default="check", show_default=True)
@click.option(
    "--judge",
    "judge_dir",
    envvar="PKB_JUDGE",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A checkout of the site's repository. Default: the judge installed with this Python.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def judge(
    slug: str, path: Path, *, profile: str, backend: str, mode: str, judge_dir: Path | None, as_json: bool
) -> ExitCode:
    """Judge PATH for the problem SLUG on this machine, without a site. The exit status is 0 exactly when it passes."""
    judge_dir = judge_dir.resolve() if judge_dir is not None else None
    python = python_of(judge_dir)
    wishes = ["--profile", profile, "--backend", backend, "--mode", mode, "--allow-unsandboxed"]
    command = [python, "-m", "evaluator", "run", slug, str(path.resolve()), *wishes, *(["--json"] if as_json else [])]
    ended = subprocess.run(command, cwd=judge_dir, check=False)  # noqa: S603 - the user's own judge on their own file
    return ExitCode.OK if ended.returncode == 0 else ExitCode.NOT_PASSED


def python_of(judge_dir: Path | None) -> str:
    """The interpreter that has the judge; raises UsageError where there is none."""
    if judge_dir is not None and not judge_dir.is_dir():
        raise UsageError(f"{judge_dir} is no folder. Give a checkout of the site's repository as judge or PKB_JUDGE.")
    own = judge_dir / ".venv" / "bin" / "python" if judge_dir is not None else None
    python = str(own) if own is not None and own.exists() else sys.executable
    probe = [python, "-c", "import evaluator.cli"]
    if subprocess.run(probe, cwd=judge_dir, capture_output=True, check=False, env=dict(os.environ)).returncode != 0:  # noqa: S603
        where = str(judge_dir) if judge_dir is not None else "this Python"
        raise UsageError(
            f"There is no judge in {where}. Clone the site's repository, run `make setup` there, and give the folder "
            "with --judge or PKB_JUDGE; or use `pkb submit --mode check`."
        )
    return python
