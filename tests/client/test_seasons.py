"""Seasons from a file to the board, as their owner and as a participant."""

import json
from datetime import UTC, datetime, timedelta

from tests.client.programs import RIGHT


def test_an_owner_opens_a_season_from_a_file_and_another_joins_once_told_who_reads(command, site, tmp_path):
    owner, participant = site.new_token("teacher"), site.new_token("student")
    site.stack.manage("shell", "-v", "0", "-c", MAKE_ORGANISATION)
    begin = datetime.now(UTC).replace(microsecond=0)
    moments = f"opens_at = {begin.isoformat()}\ncloses_at = {(begin + timedelta(days=1)).isoformat()}\n"
    (tmp_path / "course.toml").write_text(COURSE + moments)
    (tmp_path / "solution.py").write_text(f"{RIGHT}# for a course\n")
    assert command("season", "open", "course.yaml", PKB_TOKEN=owner).status == 2
    made = json.loads(command("season", "open", "course.toml", "--publish", "--json", PKB_TOKEN=owner).out)
    assert (made["phase"], bool(made["code"])) == ("open", True)
    assert command("season", "show", "course", PKB_TOKEN=participant).status == 3
    asked = command("season", "join", "course", "--code", made["code"], PKB_TOKEN=participant)
    assert (asked.status, "the owners of School" in asked.err) == (2, True)
    assert command("season", "join", "course", "--code", made["code"], "--yes", PKB_TOKEN=participant).status == 0
    handed = command("submit", "allreduce", "solution.py", "--profile", "cpux2", "--watch", PKB_TOKEN=participant)
    identifier = handed.out.split(" ", 1)[0]
    assert command("season", "board", "course", PKB_TOKEN=participant).out.splitlines()[1].split("\t")[:4] == [
        *("1", "student", "", "1"),
    ]
    assert command("status", identifier, PKB_TOKEN=owner).status == 0
    assert command("season", "step", "course", "end", PKB_TOKEN=participant).status == 3
    assert command("season", "step", "course", "end", PKB_TOKEN=owner).status == 0
    assert "closed" in command("season", "list", PKB_TOKEN=owner).out


MAKE_ORGANISATION = """
from portal.accounts.models import User
from portal.accounts.organisations import create_organisation
create_organisation(User.objects.get(username="teacher"), slug="school", name="School")
"""
COURSE = """
slug = "course"
title = "A course"
organisation = "school"
profile = "cpux2"
problems = ["allreduce"]
access = "code"
counts = "correct"
opened_sources = "none"
owners_read = true
"""
