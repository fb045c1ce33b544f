"""Asks the advisories of the Python packaging authority about every pinned requirement: `make check` runs it.

Ends with 1 where a pinned version has a known hole. Where the advisories cannot be asked it says so and ends with 0,
since nobody could check anything without a network; PKB_AUDIT_REQUIRED=1, as in continuous integration, makes that 1.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILES = ("requirements.txt", "requirements-dev.txt")
ASK_SECONDS = 120


def main() -> int:
    """Ask, print the outcome, and return the exit status."""
    audited, holes = 0, []
    for name in FILES:
        answer = ask(ROOT / name)
        if answer is None:
            return unasked(f"the advisories do not answer (asked about {name})")
        known = [package for package in answer if "skip_reason" not in package]
        audited += len(known)
        holes += [(name, package, hole) for package in known for hole in package["vulns"]]
    if not audited:
        return unasked("the package index here knows none of the advisories")
    for name, package, hole in holes:
        fixed = ", ".join(hole["fix_versions"]) or "none yet"
        sys.stderr.write(f"{name}: {package['name']} {package['version']} has {hole['id']}; fixed in: {fixed}\n")
    sys.stderr.write(f"dependencies: {audited} pinned versions audited, {len(holes)} known holes\n")
    return 1 if holes else 0


def ask(requirements: Path) -> list[dict] | None:  # type: ignore[type-arg]  # as pip-audit writes it
    """What the advisories say of each requirement, or None where they cannot be asked."""
    command = [sys.executable, "-m", "pip_audit", "--requirement", str(requirements), "--no-deps", "--disable-pip"]
    options = ["--format", "json", "--progress-spinner", "off", "--timeout", "10"]
    try:
        done = subprocess.run([*command, *options], capture_output=True, text=True, check=False, timeout=ASK_SECONDS)
        return list(json.loads(done.stdout)["dependencies"])
    except (subprocess.TimeoutExpired, json.JSONDecodeError, KeyError):
        return None


def unasked(why: str) -> int:
    """Say that nothing was audited."""
    sys.stderr.write(f"dependencies: NOT AUDITED, {why}; run `make check` with an index that has advisories\n")
    return int(os.environ.get("PKB_AUDIT_REQUIRED") == "1")


if __name__ == "__main__":
    sys.exit(main())
