"""Published programs and their verdicts by two rules: what ships is whole, and the page shows all of it."""

from http import HTTPStatus

import pytest
from django.test import Client
from django.urls import reverse

from portal.ranking import published_programs
from problems import registry

pytestmark = pytest.mark.django_db


def test_every_difference_has_its_reason_and_every_program_its_problem():
    verdicts = published_programs.verdicts()
    for one, program in verdicts["differing"]:
        name = f"{one['model']}, {program['problem']}"
        assert program.get("difference"), f"{name}: say in programs.json why the rules differ"
    for one in verdicts["sets"]:
        assert {program["problem"] for program in one["programs"]} <= {problem.slug for problem in registry.problems()}
        rulings = [program[rule] for program in one["programs"] for rule in ("ours", "published") if program[rule]]
        assert {ruling["kind"] for ruling in rulings} <= set(published_programs.KINDS)
        assert all(ruling.keys() == {"kind", "verdict", "why", "run"} for ruling in rulings)


def test_page_counts_all_programs_by_both_rules_and_names_those_left_out(client: Client):
    verdicts, page = published_programs.verdicts(), client.get(reverse("ranking:published-programs"))

    assert page.status_code == HTTPStatus.OK
    text = page.content.decode()
    assert all(f"{run['gpu.shared']} for {run['verdicts']} verdicts" in text for run in verdicts["judged_on"])
    for one in verdicts["sets"]:
        for column in (1, 2):
            assert sum(count[column] for count in one["counts"]) == len(one["programs"])
        assert all(file in text for file in one["left_out"])
        assert all(program["published_as"] in text for program in one["others"])
    assert all(
        program["difference"].split(". ")[0] in text.replace("&#x27;", "'") for _, program in verdicts["differing"]
    )
