"""What the host observes of ranks from outside: stacks and output; small real processes stand in for ranks."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from evaluator.arena import protocol
from evaluator.arena.protocol import Phase
from evaluator.host.hangs.incidents import Standing
from evaluator.host.process import procfs
from evaluator.host.process.logs import LogDrain
from evaluator.host.ranks.channel import Channel
from evaluator.host.ranks.observer import Observer
from evaluator.host.ranks.worker import Worker

IN_NCCL = "ncclGroupEnd (0x2 in /lib/libnccl.so.2)"
WAITS_FOR_GPU = "cudaStreamSynchronize + 0x1d0 (0x2 in /lib/libcudart.so.13)"

# Acts as a rank: dumps its stacks into the status page on SIGUSR1, prints its native stack on SIGINT. The second waits
# for its GPU, beside a process of its own.
_RANK = f"""
import faulthandler, os, signal, subprocess, sys, time
status_page = int(sys.argv[1])
os.lseek(status_page, {protocol.STATUS_STACK_START}, os.SEEK_SET)
faulthandler.register(signal.SIGUSR1, file=status_page, all_threads=True)
signal.signal({int(protocol.FLIGHT_SIGNAL)}, lambda *_: os.pwrite(status_page, b"[]\\0",
                                                                             {protocol.STATUS_FLIGHT_START}))
signal.signal(signal.SIGINT, lambda *_: print(
    "SIGINT(2), PID: 7, Thread 7:\\nframe #0: handler (0x1 in /lib/libc.so.6)\\n"
    "frame #1: " + sys.argv[2], flush=True))
if sys.argv[2] == {WAITS_FOR_GPU!r}:
    subprocess.Popen(["sleep", "600"])
print("started", flush=True)
while True:
    time.sleep(60)
"""


class Ranks:
    """Two processes with the host's ends of them."""

    def __init__(self):
        self.workers, self.processes, pipes = [], [], []
        self._ends = []
        for number in range(2):
            host, child = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            status_page = os.memfd_create("status_page")
            os.ftruncate(status_page, protocol.STATUS_BYTES)
            os.pwrite(status_page, protocol.PHASE_LAYOUT.pack(Phase.CALLING, 4, 0), 0)
            reading, writing = os.pipe()
            process = subprocess.Popen(
                [sys.executable, "-c", _RANK, str(status_page), (IN_NCCL, WAITS_FOR_GPU)[number]],
                stdout=writing,
                pass_fds=[status_page],
                start_new_session=True,
            )
            os.close(writing)
            pipes.append(reading)
            self._ends.append(child)
            self.processes.append(process)
            self.workers.append(Worker(number=number, channel=Channel(host), status_page=status_page, pid=process.pid))
        self.logs = LogDrain(pipes, limit=4096)
        self.sandbox = SimpleNamespace(
            logs=self.logs,
            source="/source",
            processes=SimpleNamespace(have_ended=False),
            resources=SimpleNamespace(gpus=()),
        )
        self.observer = Observer(self.workers, self.sandbox)
        self._wait_for("started")

    def _wait_for(self, text):
        deadline = time.monotonic() + 60
        while not all(text in keeper.text() for keeper in self.logs.keepers) or any(
            procfs.is_runnable(process.pid) for process in self.processes
        ):
            assert time.monotonic() < deadline, "the processes did not start"
            time.sleep(0.01)

    def close(self):
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self.logs.close()
        for worker, end in zip(self.workers, self._ends, strict=True):
            worker.channel.close()
            end.close()
            os.close(worker.status_page)


@pytest.fixture
def ranks():
    ranks = Ranks()
    yield ranks
    ranks.close()


def test_silent_ranks_show_stack_and_prints_and_the_others_are_left_alone(ranks):
    first, second = ranks.observer.observe(answered=frozenset({1}))
    assert (first.standing, second.standing) == (Standing.SLEEPING, Standing.FINISHED)
    assert "in call 4" in first.location
    assert "line" in first.stack
    assert second.stack is None
    assert first.log == second.log == "started\n"


def test_a_rank_that_has_ended_is_not_asked(ranks):
    ranks.processes[0].kill()
    ranks.workers[0].status = ranks.processes[0].wait() and 9
    first, second = ranks.observer.observe()
    assert (first.standing, first.exit) == (Standing.ENDED, "signal SIGKILL")
    assert first.stack is None
    assert second.stack is not None


def test_nobody_is_asked_once_the_sandbox_has_ended(ranks):
    ranks.sandbox.processes.have_ended = True
    assert ranks.observer.silent(frozenset()) == []
    assert all(seen.stack is None for seen in ranks.observer.observe())


def test_of_a_hang_native_stacks_are_reported_beside_pythons_and_stay_out_of_the_log(ranks):
    first, second = ranks.observer.observe_hang(answered=frozenset({1}))
    assert first.stack.endswith("Native stacks:\nthread 7:\n  ncclGroupEnd in libnccl.so.2")
    assert second.stack is None
    assert ranks.logs.keepers[0].text() == "started\n"


def test_a_rank_waits_for_its_gpu_where_its_native_stack_says_so(ranks):
    first, second = ranks.observer.observe_hang(answered=frozenset())
    assert (first.standing, second.standing) == (Standing.SLEEPING, Standing.ON_DEVICE)
    assert second.location.startswith("waits for its GPU, ")


def test_a_rank_that_sleeps_beside_a_process_of_its_own_is_said_to(ranks):
    first, second = ranks.observer.observe()
    assert "while a process" not in first.location
    assert second.location.endswith("in call 4, while a process that it started runs")


def test_at_the_end_of_a_series_all_are_finished_and_nobody_is_asked(ranks):
    assert [seen.standing for seen in ranks.observer.observe(answered=frozenset({0, 1}))] == [Standing.FINISHED] * 2
