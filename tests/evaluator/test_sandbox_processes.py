"""Every process of a sandbox is found and ended, also one that has left its parent: real processes, without ranks."""

import os
import signal
import subprocess
import sys
import time

import pytest

from evaluator.errors import EvaluatorError
from evaluator.host.process import procfs
from evaluator.host.ranks.sandbox_processes import SandboxProcesses

# Prints the number of a grandchild that lives in a session of its own, and a line once its parent has ended. Then it
# waits; SIGTERM ends neither.
_LEAVES_A_CHILD = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    left = os.fork()
    if left == 0:
        time.sleep(600)
    print(left, flush=True)
    os._exit(0)
os.wait()
print(flush=True)
time.sleep(600)
"""


def started(program, marker):
    name, _, value = marker.partition("=")
    return subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {name: value},
        start_new_session=True,
    )


@pytest.fixture
def marked(tmp_path):
    marker = f"PKB_TEST_MARK={tmp_path.name}-{os.getpid()}"
    first = started(_LEAVES_A_CHILD, marker)
    left = int(first.stdout.readline())
    assert first.stdout.readline() == b"\n"
    yield SandboxProcesses(first, group=None, marker=marker.encode()), first, left
    for pid in procfs.members_with_variable(marker.encode()):
        os.kill(pid, signal.SIGKILL)
    first.wait()
    first.stdout.close()


def test_members_are_found_by_their_mark_and_descendants_by_their_parents(marked):
    processes, first, left = marked
    assert processes.members() == sorted([first.pid, left])
    assert processes.descendants() == [first.pid]
    assert not processes.have_ended


def test_killing_ends_all_of_them_also_those_that_left(marked):
    processes, first, _left = marked
    processes.kill()
    assert processes.members() == []
    assert processes.have_ended
    assert first.returncode == -signal.SIGKILL


def test_killing_what_has_ended_by_itself_ends_what_it_left(marked):
    processes, first, left = marked
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    assert processes.members() == [left]
    processes.kill()
    assert processes.members() == []


def test_processor_time_grows_only_with_work(marked):
    processes, *_ = marked
    marker = processes._marker.decode()  # noqa: SLF001 - a process like those of the sandbox
    works = started("while True: pass", marker)
    deadline = time.monotonic() + 60
    while not processes.busy_ns() > 10**8 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert processes.busy_ns() > 10**8
    works.kill()
    works.wait()
    works.stdout.close()


def test_without_a_group_no_memory_was_used_up(marked):
    assert marked[0].memory_kills == 0


def test_processes_of_this_namespace_belong_to_no_sandbox():
    """Before the ranks have a namespace of their own nothing is theirs: the judge must not end itself."""
    first = started("import time; time.sleep(600)", "PKB_TEST_MARK=none")
    processes = SandboxProcesses(first, group=None, marker=None)
    try:
        assert processes.members() == []
        processes.hold_namespace(os.getpid())
        assert processes.members() == []
    finally:
        processes.kill()
        processes.close()
        first.stdout.close()
    assert processes.have_ended


def test_processes_that_become_fewer_are_waited_for_and_those_that_stay_are_not():
    ends = [started("input()", "PKB_TEST_MARK=none") for _ in range(3)]
    try:
        with pytest.raises(EvaluatorError, match="3 processes of an ended evaluation"):
            procfs.wait_until_gone(lambda: [end.pid for end in ends if end.poll() is None], patience_s=0.2, most_s=60)

        def one_fewer() -> list[int]:
            left = [end for end in ends if end.poll() is None]
            if left:
                left[0].kill()
                left[0].wait()
            return [end.pid for end in left]

        procfs.wait_until_gone(one_fewer, patience_s=60, most_s=60)
    finally:
        for end in ends:
            end.kill()
            end.wait()
            end.stdout.close()
