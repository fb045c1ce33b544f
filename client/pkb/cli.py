"""The `pkb` command: groups, and the conversion of errors into a message and an exit status."""

import sys

import click
import msgspec

from . import generate_command, local_commands, run_commands, season_commands, site_commands, submission_commands
from .errors import PkbError, Refused
from .version import VERSION

_INTERRUPTED = 130


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(VERSION, prog_name="pkb")
def pkb() -> None:
    """Submit to ParallelKernelBench, follow what the judge says, and run models over its problems.

    Exit status: 0 success (if something was judged, it passed), 1 judged and not passed, 2 wrong usage, 3 refused by
    the site, 4 site not reachable. Use --help after a subcommand for its options.
    """


for _command in (
    site_commands.login,
    site_commands.logout,
    site_commands.allowance,
    site_commands.problems,
    season_commands.season,
    site_commands.prompt,
    site_commands.prompts,
    local_commands.init,
    local_commands.judge,
    submission_commands.submit,
    submission_commands.status,
    submission_commands.submissions,
    submission_commands.cancel,
    run_commands.run,
    run_commands.import_tree,
    run_commands.import_trajectory,
    generate_command.generate_command,
):
    pkb.add_command(_command)


def main() -> None:
    """Run the command and exit; a person sees one message, never a traceback of ours."""
    try:
        status = pkb.main(standalone_mode=False)
    except click.exceptions.Abort:
        sys.stderr.write("interrupted\n")
        sys.exit(_INTERRUPTED)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except PkbError as error:
        _say(error)
        sys.exit(int(error.exit_code))
    sys.exit(int(status or 0))


def _say(error: PkbError) -> None:
    """The error on standard error, for people or, where the result would have been JSON, as JSON."""
    if "--json" not in sys.argv:
        sys.stderr.write(f"pkb: {error}\n")
        return
    said: dict[str, object] = {"error": str(error), "exit_code": int(error.exit_code)}
    if isinstance(error, Refused):
        said |= {"status": error.status, "errors": error.errors, "retry_after_s": error.retry_after_s}
    sys.stderr.write(msgspec.json.encode(said).decode() + "\n")
