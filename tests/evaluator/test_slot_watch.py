"""On one GPU: what another process does there while the reference is called is read, and stands in an alarm's words."""

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator

import msgspec
import pytest

from evaluator.contract import MOMENT_ALONE, GpuReading
from evaluator.host.machine import gpus
from evaluator.host.machine.slot_watch import LEAST_S, SlotWatch
from evaluator.judging import reference_drift

GPUS = gpus.present()[:1]
BYTES = 256 * 1024**2

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not GPUS, reason="no GPU here"),
    pytest.mark.timeout(120),
]

_BESIDE = f"""
import sys, torch

how = sys.argv[1]
device = torch.ones({BYTES}, dtype=torch.uint8, device="cuda")
host = torch.ones({BYTES}, dtype=torch.uint8, pin_memory=True)
acts = {{
    "copies to the device": lambda: device.copy_(host, non_blocking=True),
    "copies from the device": lambda: host.copy_(device, non_blocking=True),
    "writes memory": lambda: device.add_(1),
}}
acts[how]()
torch.cuda.synchronize()
print("ready", flush=True)
while True:
    for _ in range(10):
        acts[how]()
    torch.cuda.synchronize()
"""


@contextlib.contextmanager
def _beside(how: str) -> Iterator[None]:
    """Another process that does this to the GPU all the time."""
    child = subprocess.Popen([sys.executable, "-c", _BESIDE, how], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        yield
    finally:
        child.kill()
        child.wait()


def _call() -> None:
    """What stands for the reference: arithmetic in the caches, which moves little over PCIe and in memory."""
    import torch

    squares = torch.ones(1024, 1024, dtype=torch.bfloat16, device="cuda")
    for _ in range(200):
        squares = torch.matmul(squares, squares)
    torch.cuda.synchronize()


def _watched(watch: SlotWatch, moment: str) -> GpuReading:
    into: list[GpuReading] = []
    _call()
    begin = time.monotonic()
    with watch.around(moment, calls=1, into=into):
        while time.monotonic() < begin + 2 * LEAST_S:
            _call()
    [reading] = into
    return reading


@pytest.mark.parametrize(
    ("how", "name", "words"),
    [
        ("copies to the device", "pcie_received_bytes", "received"),
        ("copies from the device", "pcie_sent_bytes", "sent"),
        ("writes memory", "dram_percent", "of its memory's bandwidth"),
    ],
)
def test_what_another_process_moves_is_read_and_named(how: str, name: str, words: str) -> None:
    with SlotWatch(GPUS) as watch:
        alone = _watched(watch, MOMENT_ALONE)
        with _beside(how):
            phases = [_watched(watch, f"block {number}") for number in range(3)]
        after = _watched(watch, "block 3")
    print(how, *(msgspec.json.encode(each).decode() for each in (alone, *phases, after)), sep="\n")  # noqa: T201
    if getattr(alone, name) is None:
        pytest.skip("the driver offers no performance counters here")
    named = list(reference_drift.differences(alone, phases))
    assert any(words in sentence for sentence in named), named
    assert not any(words in sentence for sentence in reference_drift.differences(alone, [after])), after
