"""What a program sets aside of the L2 cache is there while it is timed and gone in between; a number plays the GPU."""

import pytest
import torch

from evaluator.arena import device as devices
from evaluator.arena.device import L2Share

MIB = 1024**2


class Gpu:
    """A GPU of which only so much is known: what is set aside of its cache."""

    def __init__(self) -> None:
        self.aside = 0

    def l2_aside(self, _device: torch.device) -> int:
        return self.aside

    def set_l2_aside(self, _device: torch.device, size: int) -> int:
        known, self.aside = self.aside, size
        return known


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    gpu = Gpu()
    monkeypatch.setattr(devices, "l2_aside", gpu.l2_aside)
    monkeypatch.setattr(devices, "set_l2_aside", gpu.set_l2_aside)
    return gpu


def timed(share: L2Share, gpu: Gpu, *, asks: int | None = None) -> int:
    """What is set aside when a call begins, in which the program may ask for another size."""
    share.give()
    found = gpu.aside
    if asks is not None:
        gpu.aside = asks
    share.take_back()
    return found


def test_what_is_set_aside_in_a_call_is_there_in_the_next_ones(gpu: Gpu):
    share = L2Share(torch.device("cuda", 0))
    assert [timed(share, gpu, asks=32 * MIB), timed(share, gpu), timed(share, gpu)] == [0, 32 * MIB, 32 * MIB]
    assert gpu.aside == 0


def test_what_is_set_aside_outside_of_a_timed_call_is_there_in_all(gpu: Gpu):
    """At the import of a program, say, which asks once and never again."""
    share = L2Share(torch.device("cuda", 0))
    gpu.aside = 32 * MIB
    assert [timed(share, gpu), timed(share, gpu)] == [32 * MIB, 32 * MIB]
    gpu.aside = 8 * MIB
    assert [timed(share, gpu), timed(share, gpu)] == [8 * MIB, 8 * MIB]
    assert gpu.aside == 0


def test_what_a_program_gives_up_in_a_call_it_does_not_get_again(gpu: Gpu):
    share = L2Share(torch.device("cuda", 0))
    assert [timed(share, gpu, asks=32 * MIB), timed(share, gpu, asks=0), timed(share, gpu)] == [0, 32 * MIB, 0]
