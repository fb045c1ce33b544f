"""Every command that the documents show exists: programs, files, services, units, subcommands and their options.

Nothing is run here. docs/measurements/deployment.md says which commands have been.
"""

import importlib.util
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest
import yaml
from django.core.management import get_commands, load_command_class

from client.pkb.cli import pkb

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
SHELL = {"", "sh", "bash", "console"}


def blocks(text: str) -> Iterator[str]:
    """The blocks of code in a shell's language."""
    for found in re.finditer(r"^( *)```(\w*)\n(.*?)^\1```", text, re.MULTILINE | re.DOTALL):
        if found[2] in SHELL:
            yield found[3]


def spans(text: str) -> Iterator[str]:
    """What stands in backticks in a sentence, and begins as a command does."""
    outside = re.sub(r"^( *)```.*?^\1```", "", text, flags=re.MULTILINE | re.DOTALL)
    for found in re.finditer(r"`([^`]+)`", outside):
        if re.match(r"(make|python|manage\.py|pkb|sh|docker compose|systemctl|kubectl|sbatch) ", found[1]):
            yield " ".join(found[1].split())


def words(line: str) -> list[str]:
    """The words of one command, without variables in front of it; [] where the line is none."""
    try:
        found = shlex.split(line.removeprefix("$ "), comments=True)
    except ValueError:
        return []
    while found and re.fullmatch(r"[A-Z_]+=.*", found[0]):
        del found[0]
    return found


def commands() -> Iterator[tuple[str, tuple[str, ...]]]:
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        lines = [line for block in blocks(text) for line in block.replace("\\\n", " ").splitlines()]
        for line in [*lines, *spans(text)]:
            for part in re.split(r" (?:&&|\|) ", line):
                if found := words(part.strip()):
                    yield document.relative_to(ROOT).as_posix(), tuple(found)


SHOWN = sorted(set(commands()))
PLACEHOLDER = re.compile(r"[A-Z][A-Z_0-9.]*|\.\.\.|<.+>|.*…|\[.*")


def shown(program: str) -> list[object]:
    """The commands of a program, the words behind its name."""
    return [
        pytest.param(found[1:], id=f"{document}: {' '.join(found)}"[:120])
        for document, found in SHOWN
        if found[0].removeprefix(".venv/bin/") == program
    ]


def is_placeholder(word: str) -> bool:
    return PLACEHOLDER.fullmatch(word) is not None


@pytest.mark.parametrize("rest", shown("make"))
def test_targets_of_make_exist(rest: tuple[str, ...]) -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert rest[0] in targets


def test_the_forge_runs_what_continuous_integration_runs() -> None:
    targets = set(re.findall(r"make (\w+)", (ROOT / ".ci" / "run").read_text()))
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    assert set(workflow["jobs"]["make"]["strategy"]["matrix"]["target"]) == targets
    assert "run: make gate\n" in (ROOT / ".github" / "workflows" / "gate.yml").read_text()


def test_a_commit_meets_programs_that_make_check_runs() -> None:
    makefile = (ROOT / "Makefile").read_text()
    # `check` hands its work to the targets that its recipe names
    parts = {
        part
        for recipe in re.findall(r"^check:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
        for part in re.findall(r"check-[\w-]+", recipe)
    }
    recipes = "".join(re.findall(rf"^(?:{'|'.join(parts)}):.*\n((?:\t.*\n)+)", makefile, re.MULTILINE))
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    programs = {program for hook in hooks for program in re.findall(r"\.venv/bin/([\w-]+)", hook["entry"])}
    assert programs <= set(re.findall(r"\$\(VENV\)/([\w-]+)", recipes))
    assert len(programs) >= len(hooks) - 2  # one program formats and lints, and a pattern reads subjects


@pytest.mark.parametrize("rest", shown("python"))
def test_python_finds_its_module_or_file(rest: tuple[str, ...]) -> None:
    if rest[0] == "-m":
        assert importlib.util.find_spec(rest[1]) is not None
    elif rest[0] == "manage.py":
        assert_is_a_management_command(rest[1:])
    elif not is_placeholder(rest[0]) and not rest[0].startswith("-"):
        assert (ROOT / rest[0]).is_file()


@pytest.mark.parametrize("rest", shown("manage.py"))
def test_management_commands_exist_with_their_options(rest: tuple[str, ...]) -> None:
    assert_is_a_management_command(rest)


def assert_is_a_management_command(rest: tuple[str, ...]) -> None:
    name = rest[0]
    if is_placeholder(name):
        return
    app = get_commands()[name]
    command = load_command_class(app, name) if isinstance(app, str) else app
    known = option_strings(command.create_parser("manage.py", name))
    assert [option for option in options(rest) if option not in known] == []


def option_strings(parser: object) -> set[str]:
    """The options of a parser and of its subcommands."""
    known: set[str] = set()
    for action in parser._actions:  # type: ignore[attr-defined]  # noqa: SLF001 - argparse shows them nowhere else
        known |= set(action.option_strings)
        if isinstance(action.choices, dict):
            known = known.union(*map(option_strings, action.choices.values()))
    return known


def options(rest: tuple[str, ...]) -> list[str]:
    return [found[0] for word in rest if (found := re.match(r"--[a-z][a-z-]*", word.lstrip("[")))]


@pytest.mark.parametrize("rest", shown("pkb"))
def test_commands_of_the_client_exist_with_their_options(rest: tuple[str, ...]) -> None:
    command: click.Command = pkb
    known = {"--help"} | names(command)
    for word in rest:
        if isinstance(command, click.Group) and not word.startswith("-") and not is_placeholder(word):
            assert word in command.commands
            command = command.commands[word]
            known |= names(command)
    assert [option for option in options(rest) if option not in known] == []


def names(command: click.Command) -> set[str]:
    return {name for each in command.params for name in (*each.opts, *each.secondary_opts)}


@cache
def services() -> dict[str, list[str]]:
    """Every service of the compose files, with its profiles."""
    found: dict[str, list[str]] = {}
    for file in (ROOT / "deploy").glob("compose*.yaml"):
        for name, service in yaml.safe_load(file.read_text())["services"].items():
            found[name] = [*found.get(name, []), *(service or {}).get("profiles", [])]
    return found


@pytest.mark.parametrize("rest", shown("docker"))
def test_compose_has_the_services_and_profiles(rest: tuple[str, ...]) -> None:
    assert rest[0] == "compose"
    profiles = {profile for each in services().values() for profile in each}
    assert {rest[number + 1] for number, word in enumerate(rest) if word == "--profile"} <= profiles
    verb = next(number for number, word in enumerate(rest) if word in {"build", "up", "run", "exec", "logs", "ps"})
    named = [word.partition("=")[0] for word in rest[verb + 1 :] if not word.startswith("-")]
    assert set(named if rest[verb] in {"up", "build"} else named[:1]) <= set(services())
    if "manage.py" in named:
        assert_is_a_management_command(tuple(named[named.index("manage.py") + 1 :]))
    for file in [word for word in named if word.endswith(".py")]:
        assert (ROOT / file).is_file()


@pytest.mark.parametrize("rest", shown("systemctl"))
def test_units_exist(rest: tuple[str, ...]) -> None:
    for unit in [word for word in rest if word.startswith("pkb-")]:
        name, _, suffix = unit.partition(".")
        wanted = re.sub(r"@.*", "@", name) + f".{suffix or 'service'}"
        assert list((ROOT / "deploy" / "systemd").glob(wanted)), unit


@pytest.mark.parametrize("rest", [*shown("kubectl"), *shown("sbatch"), *shown("sh")])
def test_files_that_are_handed_over_exist(rest: tuple[str, ...]) -> None:
    for file in [word for word in rest if word.startswith("deploy/")]:
        assert (ROOT / file).is_file()


def test_commands_of_every_kind_are_looked_at() -> None:
    seen = {found[0].removeprefix(".venv/bin/") for _, found in SHOWN}
    assert {"make", "python", "pkb", "docker", "systemctl", "kubectl", "sbatch"} <= seen
