"""Processes whose names are no text: the host reads all of a machine's processes, also those of other slots."""

import os
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
    assert procfs.ticks_with_children(named.pid) >= procfs.cpu_ticks(named.pid)
