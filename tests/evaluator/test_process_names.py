"""Processes whose names are no text: the host reads all of a machine's processes, also those of other slots."""

import os
import signal
import subprocess
import sys

import pytest

from evaluator.host.process import procfs

_NAMED = """
import ctypes, sys, time
ctypes.CDLL(None).prctl(15, bytes.fromhex("fffe2920522039200a80"), 0, 0, 0)
print("named", flush=True)
time.sleep(600)
"""


@pytest.fixture
def named():
    process = subprocess.Popen([sys.executable, "-c", _NAMED], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"named\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_process_may_be_called_anything(named):
    assert named.pid in procfs.owned_by(os.getuid())
    assert named.pid in procfs.descendants(os.getpid())
    assert procfs.parent_of(named.pid) == os.getpid()
    assert procfs.cpu_ticks(named.pid) >= 0
    assert procfs.cpu_ticks(named.pid, with_children=True) >= procfs.cpu_ticks(named.pid)


LOOP = "def loop():\n print('loops', flush=True)\n while True: pass\n"
ASIDE = "import threading, time\nthreading.Thread(target=loop).start()\ntime.sleep(600)"


@pytest.mark.parametrize(("program", "beside_first"), [("loop()", False), (ASIDE, True)])
def test_a_loop_runs_however_busy_the_machine_is(program: str, *, beside_first: bool) -> None:
    looping = subprocess.Popen([sys.executable, "-c", LOOP + program], stdout=subprocess.PIPE)
    try:
        assert looping.stdout.readline() == b"loops\n"
        assert procfs.is_runnable(looping.pid, beside_first=beside_first)
        os.kill(looping.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, looping.pid, os.WSTOPPED)
        assert not procfs.is_runnable(looping.pid, beside_first=beside_first)
    finally:
        looping.kill()
        looping.communicate()
    assert not procfs.is_runnable(looping.pid, beside_first=beside_first), "it is gone"
