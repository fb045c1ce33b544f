"""CHANGELOG.md: releases in order, the newest being the version of site and client, and entries by kind of change."""

import re
import subprocess
import tomllib
from datetime import date
from pathlib import Path

import yaml
from django.conf import settings

from pkb.version import VERSION

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
RELEASES = re.findall(r"^## (\d+\.\d+\.\d+) - (\d{4}-\d\d-\d\d)$", TEXT, re.MULTILINE)


def test_the_newest_release_is_the_version_of_site_and_client() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert RELEASES[0][0] == project["version"] == VERSION == settings.VERSION
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert (citation["version"], citation["date-released"].isoformat()) == RELEASES[0]


def test_releases_go_back_to_the_first_with_their_dates() -> None:
    versions = [tuple(map(int, version.split("."))) for version, _ in RELEASES]
    days = [date.fromisoformat(day) for _, day in RELEASES]
    assert versions == sorted(versions, reverse=True)
    assert days == sorted(days, reverse=True)
    assert versions[-1] == (0, 1, 0)
    assert len(re.findall(r"^## ", TEXT, re.MULTILINE)) == len(RELEASES) + TEXT.count("\n## Unreleased\n")


def test_every_release_says_how_to_upgrade_and_keeps_its_messages() -> None:
    *later, _first = re.split(r"^## (?=\d)", TEXT, flags=re.MULTILINE)[1:]
    assert all("\n### Upgrading\n" in release for release in later)
    kept = [version for version, _ in RELEASES if tuple(map(int, version.split("."))) >= (0, 4, 0)]
    assert all((ROOT / f"tests/evaluator/releases/{version}.json.xz").is_file() for version in kept)


def test_the_commit_under_a_release_has_its_version() -> None:
    for version, commit in re.findall(r"^## (\S+) - \S+\n\nCommit `([0-9a-f]+)`\.$", TEXT, re.MULTILINE):
        command = ["git", "show", f"{commit}:pyproject.toml"]
        shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert len(commit) == 40
        assert shown.returncode or f'version = "{version}"' in shown.stdout  # a copy without history knows no commit


def test_every_entry_stands_under_a_kind_of_change() -> None:
    kinds = set(re.findall(r"^### (.+)$", TEXT, re.MULTILINE))
    assert kinds <= {"Upgrading", "Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_links_lead_to_files() -> None:
    targets = [target.partition("#")[0] for target in re.findall(r"\]\((?!https?:)([^)]+)\)", TEXT)]
    assert [target for target in targets if not (ROOT / target).is_file()] == []
