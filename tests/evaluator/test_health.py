"""A slot that is not clean after an evaluation says why, and takes no more work."""

import dataclasses
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from evaluator.contract import Assignment, EvaluationReport, SlotState, Verdict
from evaluator.host import Judge
from evaluator.host.machine import nvml
from evaluator.host.machine.health import on_gpu
from evaluator.host.machine.nvml import GpuState
from evaluator.host.process import procfs
from evaluator.node.slots import Slot
from tests.evaluator.conftest import SETTINGS
from tests.evaluator.judging_help import request_for


@pytest.fixture
def slot(tmp_path: Path) -> Iterator[Slot]:
    settings = dataclasses.replace(SETTINGS, work_dir=tmp_path, warm=False, clean_s=2.0)
    slot = Slot(0, "cpux2", make_judge=lambda _profile: Judge(settings), changed=lambda: None)
    slot.prepare()
    yield slot
    slot.close()


def judged(slot: Slot, name: str) -> EvaluationReport:
    assignment = Assignment(lease="l", slot=0, request=request_for(name))
    return slot.judge(assignment, progress=lambda *_: None, cancelled=lambda: False).report


def user_of(slot: Slot) -> int:
    judge = slot._judge  # noqa: SLF001 - the number is nobody else's business
    detail = next((probe.detail for probe in judge.confinement.probes if probe.name == "own host user per slot"), "")  # type: ignore[union-attr]
    if os.getuid() != 0 or not detail.startswith("user "):
        pytest.skip("this machine gives sandboxes no user of their own")
    return int(detail.removeprefix("user "))


def test_a_process_that_stays_puts_the_slot_into_quarantine(slot: Slot) -> None:
    assert judged(slot, "correct").verdict is Verdict.PASSED
    assert slot.status.state is SlotState.FREE
    command = ["setpriv", "--reuid", str(user_of(slot)), "--clear-groups", "sleep", "100"]
    with subprocess.Popen(command) as left:
        report = judged(slot, "correct")
        assert report.verdict is Verdict.PASSED, "a verdict that stood is not replaced"
        assert [finding.verdict for finding in report.findings] == [Verdict.PASSED, Verdict.JUDGE_ERROR]
        assert slot.status.state is SlotState.QUARANTINED
        assert str(left.pid) in slot.status.note
        assert "restart the node" in slot.status.note
        left.kill()
    slot.prepare()
    assert slot.status.state is SlotState.QUARANTINED
    assert judged(slot, "correct").verdict is Verdict.JUDGE_FAILURE


def test_a_process_that_stays_is_noticed_while_the_next_ranks_start(tmp_path: Path) -> None:
    settings = dataclasses.replace(SETTINGS, work_dir=tmp_path, clean_s=2.0)
    slot = Slot(0, "cpux2", make_judge=lambda _profile: Judge(settings), changed=lambda: None)
    slot.prepare()
    try:
        command = ["setpriv", "--reuid", str(user_of(slot)), "--clear-groups", "sleep", "100"]
        with subprocess.Popen(command) as left:
            waiting = slot._judge.slot.waiting  # type: ignore[union-attr] # noqa: SLF001 - on CPU ranks nothing else prepares
            assignment = Assignment(lease="l", slot=0, request=request_for("correct"))
            prepared = set()

            def prepare(*_: object) -> None:
                waiting.prepare()
                prepared.update(waiting.groups)

            slot.judge(assignment, progress=prepare, cancelled=lambda: False)
            assert str(left.pid) in slot.status.note
            assert slot.status.state is SlotState.QUARANTINED
            assert any(group.has_ranks for group in prepared)
            left.kill()
    finally:
        slot.close()


def test_a_dead_process_that_nobody_has_waited_for_is_not_left_over(slot: Slot) -> None:
    command = ["setpriv", "--reuid", str(user_of(slot)), "--clear-groups", "true"]
    with subprocess.Popen(command) as dead:
        os.waitid(os.P_PID, dead.pid, os.WEXITED | os.WNOWAIT)
        assert judged(slot, "correct").verdict is Verdict.PASSED


NOBODYS = 1_900_900_900
"""A user number that no judge takes."""

THREAD = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(100,)).start()
ctypes.CDLL(None).pthread_exit(None)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root may start processes of another user")
def test_a_process_whose_first_thread_has_ended_is_left_over() -> None:
    command = ["setpriv", "--reuid", str(NOBODYS), "--clear-groups", "/usr/bin/python3", "-c", THREAD]
    with subprocess.Popen(command) as left:
        deadline = time.monotonic() + 60
        while "State:\tZ" not in Path(f"/proc/{left.pid}/status").read_text(encoding="utf-8"):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert procfs.owned_by(NOBODYS) == [left.pid]
        left.kill()


GB = 10**9
WAITING = {1: GB, 2: GB}
"""An oracle rank and the rank of a worker group that waits, 1 GB each."""


@pytest.mark.parametrize(
    ("used", "named", "words"),
    [
        (3 * GB, WAITING, ""),
        (4 * GB, WAITING, "1.0 GB"),
        (4 * GB, {**WAITING, 7: GB}, "[7]"),
        # In containers: no numbers, or those of another namespace. What ours use is then in no sum.
        (3 * GB, {}, ""),
        (3 * GB, {4001: GB, 4002: GB}, ""),
    ],
)
def test_what_is_on_a_gpu_speaks_against_it_only_where_the_driver_names_our_own(
    used: int, named: dict[int, int], words: str
) -> None:
    state = GpuState(index=3, busy_percent=0, total_bytes=140 * 10**9, used_bytes=used, processes=named)
    found = " ".join(on_gpu(state, ours={1, 2}, unowned_before=GB))
    assert (words in found) if words else not found


def gpu(index: int, *, free: int) -> GpuState:
    return GpuState(index=index, busy_percent=0, total_bytes=140 * GB, used_bytes=140 * GB - free, processes={})


@pytest.mark.parametrize(
    ("states", "gpus", "is_room"),
    [
        ([gpu(2, free=5 * GB), gpu(3, free=4 * GB)], (2, 3), True),
        ([gpu(2, free=5 * GB), gpu(3, free=4 * GB - 1)], (2, 3), False),
        ([gpu(2, free=5 * GB)], (2, 3), False),
        # The driver's library cannot be used.
        ([], (2, 3), False),
        # CPU ranks.
        ([], (), True),
    ],
)
def test_gpus_whose_memory_cannot_be_read_have_no_room(
    states: list[GpuState], gpus: tuple[int, ...], *, is_room: bool
) -> None:
    assert nvml.have_room(states, gpus=gpus, least_bytes=4 * GB) is is_room


CANARY = """
import sys, torch, torch.distributed as dist
from evaluator.oracle import canary
rank = int(sys.argv[1])
dist.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
cpu = torch.device("cpu")
print(canary.failures(device=cpu, rank=rank, world_size=2, is_full=True))
if rank == 1:
    right = torch.Tensor.clone
    torch.Tensor.clone = lambda tensor: right(tensor).index_fill_(0, torch.tensor([9]), 0)  # one bad cell of memory
print(canary.failures(device=cpu, rank=rank, world_size=2, is_full=False))
dist.destroy_process_group()
"""


def test_canary_is_silent_on_a_good_device_and_notices_one_wrong_number(tmp_path: Path) -> None:
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", CANARY, str(rank), str(tmp_path / "store")], stdout=subprocess.PIPE, text=True
        )
        for rank in range(2)
    ]
    good, bad = (rank.communicate(timeout=100)[0].splitlines() for rank in ranks)
    assert good == ["[]", "[]"]
    assert bad == ["[]", "['a pattern of 4096 numbers changed in a copy']"]
