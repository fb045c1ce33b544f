"""Back up the site's database into a folder, and restore a copy into an empty database.

    PKB_DATABASE_URL=postgres://... python deploy/database_copy.py backup /var/backups/pkb
    PKB_DATABASE_URL=postgres://... python deploy/database_copy.py restore /var/backups/pkb/pkb-20261122-180000.dump

A copy is pg_dump's own format with its SHA-256 beside it. It appears under its name once it is complete and was read
back. Restoring refuses a database that holds anything, and happens whole or not at all; then it makes the planner's
statistics. The password goes to the programs by their environment, so that no list of processes shows it.
"""

import argparse
import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import unquote, urlsplit

_CHUNK = 1024 * 1024


class Failure(Exception):
    """Nothing was copied; the text says why and what to do."""


def main() -> int:
    """Back up or restore; returns 1 after saying what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    backup_parser = commands.add_parser("backup", help="write a copy into FOLDER, and print its path")
    backup_parser.add_argument("folder", type=Path)
    backup_parser.add_argument(
        "--keep", type=int, default=0, help="remove all but the newest KEEP copies (default: keep all)"
    )
    restore_parser = commands.add_parser("restore", help="restore FILE into the empty database of PKB_DATABASE_URL")
    restore_parser.add_argument("file", type=Path)
    chosen = parser.parse_args()
    try:
        environment = environment_of(os.environ.get("PKB_DATABASE_URL", ""))
        if chosen.command == "backup":
            sys.stdout.write(f"{backup(chosen.folder, environment, keep=chosen.keep)}\n")
        else:
            restore(chosen.file, environment)
    except (Failure, OSError) as error:
        sys.stderr.write(f"database_copy: {error}\n")
        return 1
    return 0


def environment_of(url: str) -> dict[str, str]:
    """What libpq's programs need to reach the database at `url`.

    Raises:
        Failure: it is no address of PostgreSQL.
    """
    parts = urlsplit(url)
    name = parts.path.lstrip("/")
    if parts.scheme not in ("postgres", "postgresql", "psql") or not parts.hostname or not name:
        raise Failure("PKB_DATABASE_URL is not postgres://user:password@host:port/name; SQLite is copied as a file")
    found = {
        "PGHOST": parts.hostname,
        "PGPORT": str(parts.port or 5432),
        "PGDATABASE": unquote(name),
        "PGUSER": unquote(parts.username or ""),
        "PGPASSWORD": unquote(parts.password or ""),
    }
    return {key: value for key, value in found.items() if value}


def backup(folder: Path, environment: dict[str, str], *, keep: int = 0) -> Path:
    """Write a copy into `folder`; the path. With `keep`, older copies beyond that number are removed afterwards."""
    os.umask(0o077)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"pkb-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}.dump"
    draft = path.with_suffix(".draft")
    try:
        # Without sessions: a copy that is stolen must not sign anybody in. People sign in again after a restore.
        leave_out = "--exclude-table-data=django_session"
        _run(["pg_dump", "--format=custom", "--no-owner", "--no-privileges", leave_out, f"--file={draft}"], environment)
        # Read back: a copy that cannot be listed would be found out on the worst of days.
        _run(["pg_restore", "--list", str(draft)], environment)
        _checksum_of(path).write_text(f"{_sha256(draft)}  {path.name}\n")
        draft.rename(path)
    finally:
        draft.unlink(missing_ok=True)
    if keep:
        for old in sorted(folder.glob("pkb-*.dump"))[:-keep]:
            _checksum_of(old).unlink(missing_ok=True)
            old.unlink()
    return path


def restore(path: Path, environment: dict[str, str]) -> None:
    """Restore the copy at `path` into an empty database.

    Raises:
        Failure: the copy is damaged or has no checksum, the database is not empty, or pg_restore refused.
    """
    try:
        expected = _checksum_of(path).read_text().split()[0]
    except (FileNotFoundError, IndexError) as error:
        raise Failure(f"{_checksum_of(path)} is missing; it lies beside every copy that `backup` wrote") from error
    if _sha256(path) != expected:
        raise Failure(f"{path} is damaged: it is not what `backup` wrote; take another copy")
    count = (
        "SELECT count(*) FROM information_schema.tables WHERE table_schema NOT IN ('pg_catalog', 'information_schema')"
    )
    tables = _run(["psql", "--no-psqlrc", "--tuples-only", "--no-align", "--command", count], environment).strip()
    if tables != "0":
        raise Failure(f"the database {environment['PGDATABASE']} has {tables} tables; make an empty one and name that")
    command = ["pg_restore", "--exit-on-error", "--single-transaction", "--no-owner", "--no-privileges"]
    _run([*command, f"--dbname={environment['PGDATABASE']}", str(path)], environment)
    # A copy holds no statistics. Until PostgreSQL makes them by itself, it plans the first pages by guesses.
    _run(["psql", "--no-psqlrc", "--quiet", "--command", "ANALYZE"], environment)


def _checksum_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_CHUNK):
            digest.update(block)
    return digest.hexdigest()


def _run(command: list[str], environment: dict[str, str]) -> str:
    try:
        done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise Failure(f"{command[0]} is not installed; on Debian: apt-get install postgresql-client") from error
    if done.returncode:
        raise Failure(f"{command[0]} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
