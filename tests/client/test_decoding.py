"""Threads that decode answers for the first time, at once: each in a process of its own, for it may end."""

import subprocess
import sys

import pytest

from tests.stack import ROOT

AT_ONCE = """
import sys, threading
import msgspec
{imports}
sys.setswitchinterval(1e-6)
start = threading.Barrier(4)
def decode():
    start.wait()
    try:
        msgspec.json.decode({text!r}, type={record})
    except msgspec.ValidationError:
        pass
{before}
threads = [threading.Thread(target=decode) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""
FOREIGN = 'msgspec.defstruct("Foreign", [("field", "Unknown")])'
"""A type of a harness beside the client: msgspec cannot read its fields, which is nobody's error."""


@pytest.mark.parametrize(
    ("imports", "record", "before"),
    [
        ("from evaluator.contract import EvaluationReport, read_fields", "EvaluationReport", "read_fields()"),
        (
            "from pkb.client import Client; from pkb.results import Report; keep = " + FOREIGN,
            "Report",
            "Client('http://127.0.0.1:9', token='x').close()",
        ),
    ],
    ids=["judge and site", "client"],
)
def test_threads_may_decode_a_type_for_the_first_time_at_once(imports, record, before):
    text = AT_ONCE.format(imports=imports, record=record, before=before, text=b'{"sizes": [{"outputs": [{}]}]}')
    command = [sys.executable, "-c", text]
    for _ in range(3):
        done = subprocess.run(command, env={"PYTHONPATH": f"{ROOT}:{ROOT}/client"}, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
