"""docs/judge/: verdicts and values by profile are those of the code."""

import re
from collections.abc import Callable
from pathlib import Path

from evaluator.hardware.profiles import Profile, profiles
from tools.tables import verdicts_page

MANUAL = Path(__file__).parents[2] / "docs" / "judge"


def test_the_page_of_verdicts_is_current() -> None:
    assert verdicts_page.TARGET.read_text(encoding="utf-8") == verdicts_page.page(), "run `make verdict-docs`"


def test_every_verdict_says_what_it_rests_on() -> None:
    assert set(verdicts_page.EVIDENCE) == set(verdicts_page.FACTS)


def _in_words(profile: Profile) -> dict[str, str]:
    rules, policy = profile.timing_rules(), profile.timing_policy
    least, most = policy.skew_us
    return {
        "resolution": f"{rules.resolution_us:g} us",
        "noise between starts, share of the time": f"{rules.start_share * 100:g} %",
        "noise between starts, at least": f"{rules.start_us:g} us",
        "the same share for programs that wait for the device": f"{rules.waiting_share * 100:g} %",
        "processors that a rank may keep busy beside the reference": f"{policy.busy_cores_per_rank:g}",
        "delay of a rank in a skewed call": f"{least} to {most} us",
        "special calls in twelve blocks": f"{policy.special_calls}",
        "share of the series in a second worker group": f"{policy.second_group_share * 100:g} %",
    }


def _column(number: int) -> dict[str, str]:
    """One column of the table of values by profile, by the first cell of its rows."""
    text = (MANUAL / "timing-and-score.md").read_text(encoding="utf-8")
    section = text.partition("## Values by profile")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if re.match(r"\| [a-z]", line)]
    return {row[0]: row[number] for row in rows[1:]}


def _profiles(of: Callable[[Profile], bool]) -> list[Profile]:
    return [profile for profile in profiles().values() if of(profile)]


def test_the_values_by_profile_are_those_of_the_code() -> None:
    for practice in _profiles(lambda profile: not profile.is_ranked_by_speed):
        assert _column(1) == _in_words(practice), practice.name
    for ranked in _profiles(lambda profile: profile.is_ranked_by_speed):
        assert _column(2) == _in_words(ranked), ranked.name


def test_the_files_that_the_manual_names_exist() -> None:
    root = MANUAL.parents[1]
    named = {name for page in MANUAL.glob("*.md") for name in re.findall(r"`((?:\w+/)+\w+\.py)`", page.read_text())}
    named |= {f"tests/evaluator/{name}" for name in re.findall(r"`(test_\w+\.py)`", (MANUAL / "cheats.md").read_text())}
    assert "host/machine/health.py" in named
    assert [name for name in sorted(named) if not any((at / name).is_file() for at in (root, root / "evaluator"))] == []
