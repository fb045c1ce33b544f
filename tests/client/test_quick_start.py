"""docs/client.md: this test types what its quick start tells people to type."""

import os
import re
import shutil
import subprocess
import sys
import venv

import pytest

from tests.client.model_server import KEY, ModelServer, fenced
from tests.client.programs import RIGHT
from tests.stack import ROOT

PAGE = (ROOT / "docs" / "client.md").read_text()
QUICK_START = PAGE.split("## Quick start")[1].split("\n## ")[0]


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", QUICK_START, re.MULTILINE | re.DOTALL)


@pytest.fixture(params=["from the checkout", pytest.param("installed", marks=pytest.mark.slow)])
def programs(request, tmp_path):
    """What comes first in PATH: `pkb` from the checkout, or a fresh environment to install into."""
    if request.param == "installed":
        venv.create(tmp_path / "venv", with_pip=True)
        return tmp_path / "venv" / "bin"
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "pkb").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pkb "$@"\n')
    (folder / "python3").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    # The package is there already, from the checkout.
    (folder / "pip").write_text('#!/bin/sh\ntest "$*" = "install ./client"\n')
    for program in folder.iterdir():
        program.chmod(0o755)
    return folder


def test_quick_start(site, programs, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    shutil.copytree(ROOT / "client", work / "client", ignore=shutil.ignore_patterns("__pycache__"))
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PKB_", "PYTHON"))} | {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PKB_CONFIG_DIR": str(tmp_path / "config"),
    }
    if not (programs / "activate").exists():
        environment["PYTHONPATH"] = str(ROOT / "client")
    token = site.new_token(f"reader{os.getpid()}-{abs(hash(programs.parent.name)) % 10**6}")
    with ModelServer(lambda _: fenced(RIGHT)) as model:
        script = "".join(blocks("sh")).replace("http://127.0.0.1:8000", site.url)
        script = script.replace("http://127.0.0.1:8080/v1", model.base_url).replace("sk-...", KEY)
        shell = ["bash", "-euo", "pipefail", "-c", script]
        done = subprocess.run(
            shell, cwd=work, env=environment, input=f"{token}\n", capture_output=True, text=True, check=False
        )
    said = f"{done.stdout}\n{done.stderr}"
    assert done.returncode == 0, said
    assert "PASSED (Passed)" in said
    assert "attempts.jsonl: 1 created of 1; sent by this call: 1" in said
    assert re.search(r"allreduce/0/0: PASSED, (.+ \(\d+\.\d+ to \d+\.\d+\)|times too noisy)", said)
    assert "single_shot, pytorch on cpux2, published" in said
    assert "1 of 1 samples done" in said
    assert (work / "results.csv").read_text().count("PASSED") == 1

    python = subprocess.run(
        ["python3", "-c", "".join(blocks("python"))],
        cwd=work,
        env=environment | {"PKB_SITE": site.url, "PKB_TOKEN": token},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (python.returncode, python.stdout) == (0, "PASSED\n"), python.stderr
