"""Starts the ranks that measure what this machine's hardware reaches, and ends them in any case."""

import os
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from evaluator.errors import EvaluatorError
from evaluator.hardware import profiles
from evaluator.hardware.ceilings import Ceilings
from evaluator.host.machine import facts, gpus
from evaluator.host.process.limited import end_session
from evaluator.host.sandbox import bubblewrap

_ROOT = str(Path(__file__).parents[2])
_LONGEST_S, _END_S = 540, 30.0


def measure(name: str) -> Ceilings:
    """What the hardware of the profile called `name` reaches on this machine, which must be idle.

    Raises:
        UnknownProfile: there is none of this name.
        EvaluatorError: the machine lacks its GPUs, or a rank failed; the text holds the end of what it printed.
    """
    profile = profiles.get(name)
    gpus.gpus_for(profile)
    with tempfile.TemporaryDirectory(prefix="pkb-ceilings-") as folder:
        environment = {
            **os.environ,
            **bubblewrap.environment(profile, home=folder),
            **gpus.environment(profile),
            "PYTHONPATH": os.pathsep.join(filter(None, (_ROOT, os.environ.get("PYTHONPATH")))),
        }
        ranks = [_start(name, rank, folder=folder, environment=environment) for rank in range(profile.world_size)]
        try:
            text = _wait(ranks, folder=Path(folder))
        finally:
            _end(ranks)
    own = {"profile": name, "measured_at": datetime.now(UTC).isoformat(timespec="seconds")}
    return msgspec.convert(own | {"environment": facts.environment()} | msgspec.json.decode(text), type=Ceilings)


def _start(profile: str, rank: int, *, folder: str, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    with Path(folder, f"rank{rank}.log").open("wb") as log:
        return subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-m", "evaluator.measuring.ceiling_rank", profile, f"{folder}/store", str(rank)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL,
            stderr=log,
            env=environment,
            start_new_session=True,
        )


def _wait(ranks: list[subprocess.Popen[bytes]], *, folder: Path) -> bytes:
    """What rank 0 prints, after all ranks have succeeded; the first failure ends the measurement."""
    deadline = time.monotonic() + _LONGEST_S
    while any(rank.poll() is None for rank in ranks):
        failed = next((number for number, rank in enumerate(ranks) if rank.poll()), None)
        if failed is not None or time.monotonic() > deadline:
            break
        time.sleep(0.05)
    for number, rank in enumerate(ranks):
        if rank.poll() != 0:
            said = (folder / f"rank{number}.log").read_text(encoding="utf-8", errors="replace").strip()[-2000:]
            how = f"took longer than {_LONGEST_S} s" if rank.poll() is None else f"ended with {rank.poll()}"
            raise EvaluatorError(f"rank {number} {how} while measuring ceilings: {said or 'it printed nothing'}")
    assert ranks[0].stdout is not None
    return ranks[0].stdout.read()


def _end(ranks: list[subprocess.Popen[bytes]]) -> None:
    for rank in ranks:
        end_session(rank, "a rank that measures ceilings", seconds=_END_S)
        if rank.stdout is not None:
            rank.stdout.close()
