"""A GPU driver that does not answer: its readings are left out, and nobody waits for it. A library in its place."""

import contextlib
import json
import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from evaluator.host.machine import driver_calls, facts, gpus, nvml, slot_watch
from evaluator.host.machine.health import Health, Watch
from evaluator.host.machine.slot_watch import SlotWatch
from tests.stack import wait_until

HERE = Path(__file__).parent
LIMIT_S = 3.0
GPUS = (0, 1)
COMPLETE = {
    "gpus": [[0, 0, 3], [0, 0, 3]],
    "links": "",
    "states": 2,
    "faults": [],
    "leftovers": [],
}
EVERYTHING = frozenset(COMPLETE)
ASKED = {
    "nvmlInitWithFlags": EVERYTHING,
    "nvmlDeviceGetMinorNumber": EVERYTHING,
    "nvmlDeviceGetFieldValues": EVERYTHING,
    "nvmlGpmSampleGet": EVERYTHING,
    "nvmlGpmMetricsGet": EVERYTHING,
    "nvmlDeviceGetMemoryInfo": EVERYTHING,
    "nvmlShutdown": EVERYTHING - {"gpus", "links"},
    "nvmlEventSetWait_v2": {"faults", "leftovers"},
}
"""What is missing after each function has hung: whatever is read from then on."""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler on this machine")
    folder = tmp_path_factory.mktemp("driver")
    target = folder / "libnvidia-ml.so.1"
    line = [compiler, "-shared", "-fPIC", "-o", str(target), str(HERE / "hanging_driver.c")]
    subprocess.run(line, check=True)
    tool = folder / "nvidia-smi"
    tool.write_text("#!/bin/sh\nexec sleep 1000\n")
    tool.chmod(0o755)
    return folder


@pytest.mark.skipif(bool(gpus.present()), reason="this machine has GPUs, which the readings name")
@pytest.mark.timeout(600)
def test_a_driver_that_hangs_costs_one_wait_and_its_readings_and_is_read_again_once_it_answers(
    library: Path, tmp_path: Path
) -> None:
    environment = os.environ | {
        "LD_LIBRARY_PATH": str(library),
        "HANG_AT": str(tmp_path),
        "PATH": f"{library}:{os.environ['PATH']}",
    }
    line = [sys.executable, "-m", "tests.evaluator.test_hanging_driver", str(tmp_path)]
    done = subprocess.run(
        line, env=environment, cwd=HERE.parents[1], capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen.pop("") == COMPLETE
    assert seen.pop("nvidia-smi") == []
    for name, missing in ASKED.items():
        during, afterwards = seen.pop(name)
        assert {key for key, value in during.items() if value != COMPLETE[key]} == missing, name
        assert "does not answer" in " ".join(during["leftovers"]), "such a slot takes no more work"
        assert during["faults"] is None, "no report says that there were no faults"
        assert afterwards == COMPLETE, name
    assert not seen
    assert done.stderr.count("has not answered for") == len(ASKED), "the operator is told once for each"


def readings(work_dir: Path) -> dict[str, object]:
    """Everything that an evaluation reads from the driver."""
    gpus: list = []
    with SlotWatch(GPUS) as watch:
        with watch.around("before", calls=2, into=gpus):
            pass
        links = watch.count_links(least_bytes=0.0, call=lambda around: contextlib.ExitStack().enter_context(around))
    states = nvml.read(GPUS)
    with Watch(GPUS) as faults:
        pass
    health = Health(user=None, gpus=GPUS, work_dir=work_dir, ours=list, kept=set, seconds=0.0)
    return {
        "gpus": [[seen.sent_bytes, seen.pcie_sent_bytes and 0, seen.used_bytes] for seen in gpus],
        "links": links.note,
        "states": len(states),
        "faults": faults.faults if faults.faults is None else list(faults.faults),
        "leftovers": list(health.leftovers()),
    }


def main() -> None:
    """Read everything while one function after the other hangs, and again once it answers; print it."""
    logging.basicConfig()
    folder = Path(sys.argv[1])
    driver_calls.LIMIT_S = LIMIT_S
    facts._SMI_S = LIMIT_S  # noqa: SLF001
    slot_watch.LEAST_S = 0.0
    seen: dict[str, object] = {"": readings(folder)}
    for name in ASKED:
        (folder / name).touch()
        during = readings(folder)
        (folder / name).unlink()
        wait_until(lambda: not driver_calls.silence(), what="the call that hung has come back", seconds=60)
        seen[name] = (during, readings(folder))
    driver_calls.LIMIT_S = 10 * LIMIT_S  # the tool hangs, and can be killed
    seen["nvidia-smi"] = facts.facts()["gpus"]
    print(json.dumps(seen))  # noqa: T201


if __name__ == "__main__":
    main()
