"""What requirements name is what the code imports, and can be installed where the manual says so."""

import ast
import importlib.metadata
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
DEBIAN_12 = "3.11.2"
"""The Python that the manual installs with, the oldest of those that README promises."""
OURS = {"portal", "evaluator", "problems", "client", "pkb", "deploy"}
TORCH_BRINGS = {"torch", "triton", "cuda-bindings"}
"""What a node takes from the machine's torch; triton and cuda-bindings come with its CUDA builds alone."""


CLIENT = tomllib.loads((ROOT / "client/pyproject.toml").read_text())["project"]


def requirements(name: str) -> dict[str, Requirement]:
    lines = (line.partition("#")[0].strip() for line in (ROOT / name).read_text().splitlines())
    found = [Requirement(line) for line in lines if line and not line.startswith("-")]
    return {canonicalize_name(requirement.name): requirement for requirement in found}


@cache
def distributions() -> dict[str, set[str]]:
    return {
        module: {canonicalize_name(name) for name in names}
        for module, names in importlib.metadata.packages_distributions().items()
    } | {"triton": {"triton"}, "cuda": {"cuda-bindings"}}


def imported(*folders: str) -> dict[str, str]:
    """Each package outside the standard library that the code imports, with a file that does."""
    modules = {}
    for path in sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                names = [node.module] if isinstance(node, ast.ImportFrom) and node.module and not node.level else []
            modules |= {name.partition(".")[0]: path.relative_to(ROOT).as_posix() for name in names}
    return {
        (distributions()[module] & set(requirements("requirements.txt")) or distributions()[module]).pop(): path
        for module, path in modules.items()
        if module not in OURS | sys.stdlib_module_names
    }


@pytest.mark.parametrize(
    ("folders", "named"),
    [
        (("portal",), requirements("requirements-site.txt")),
        (("evaluator",), requirements("requirements-node.txt").keys() | TORCH_BRINGS),
        (
            ("client",),
            {
                canonicalize_name(Requirement(line).name)
                for lines in (CLIENT["dependencies"], *CLIENT["optional-dependencies"].values())
                for line in lines
            },
        ),
    ],
)
def test_every_package_that_the_code_imports_is_named(folders, named):
    assert {package: path for package, path in imported(*folders).items() if package not in named} == {}


def test_the_command_and_the_python_client_import_no_extra():
    code = (
        "import sys, pkb.cli, pkb.grading; print(sorted({'inspect_ai', 'verifiers', 'pydantic'} & sys.modules.keys()))"
    )
    call = [sys.executable, "-c", code]
    found = subprocess.run(call, env={"PYTHONPATH": str(ROOT / "client")}, capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


def test_every_version_stands_once():
    pinned, development = requirements("requirements.txt"), requirements("requirements-dev.txt")
    assert [name for name, line in (pinned | development).items() if not str(line.specifier).startswith("==")] == []
    assert pinned.keys() & development.keys() == set()
    for name in ("requirements-site.txt", "requirements-node.txt"):
        parts = requirements(name)
        assert parts.keys() <= pinned.keys()
        assert [str(line) for line in parts.values() if line.specifier] == []


def test_the_packages_of_extras_are_pinned():
    for name, line in requirements("requirements-site.txt").items():
        wanted = [Requirement(text) for text in importlib.metadata.requires(name) or []]
        extras = [
            each for each in wanted for extra in line.extras if each.marker and each.marker.evaluate({"extra": extra})
        ]
        assert {canonicalize_name(each.name) for each in extras} <= requirements("requirements.txt").keys()


def test_a_site_alone_has_no_torch():
    assert requirements("requirements-site.txt").keys() & {"torch", "numpy"} == set()


def test_packages_take_the_python_of_debian_12():
    pinned = requirements("requirements.txt")
    installed = {name: importlib.metadata.distribution(name) for name in pinned}
    # Where a pin was just changed, what is installed says nothing about it until `make setup` has run.
    known = {
        name: SpecifierSet(installed[name].metadata.get("Requires-Python") or "")
        for name, line in pinned.items()
        if line.specifier.contains(installed[name].version)
    }
    assert len(known) >= len(pinned) - 1
    assert {name: str(wanted) for name, wanted in known.items() if DEBIAN_12 not in wanted} == {}
