"""What requirements name can be installed where the manual says so."""

import importlib.metadata
import re
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parents[2]
DEBIAN_12 = "3.11.2"
"""The Python that the manual installs with, the oldest of those that README promises."""


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-node.txt", "requirements-node-gpu.txt"])
def test_packages_take_the_python_of_debian_12(name):
    pinned = re.findall(r"^([\w.-]+)(?:\[.*?\])?==([\w.]+)", (ROOT / name).read_text(), re.MULTILINE)
    installed = {package: importlib.metadata.distribution(package) for package, _ in pinned}
    # Where a pin was just changed, what is installed says nothing about it until `make setup` has run.
    known = {
        package: SpecifierSet(installed[package].metadata.get("Requires-Python") or "")
        for package, version in pinned
        if installed[package].version.partition("+")[0] == version
    }
    assert len(known) >= len(pinned) - 1
    assert {package: str(wanted) for package, wanted in known.items() if DEBIAN_12 not in wanted} == {}
