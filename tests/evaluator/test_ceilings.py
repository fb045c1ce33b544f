"""Measuring what hardware reaches, with real ranks; the figures themselves are the machine's."""

import pytest

from evaluator import cli
from evaluator.hardware.ceilings import Ceilings, stored
from evaluator.hardware.profiles import profiles
from evaluator.host.machine import gpus


def test_ceilings_of_two_cpu_ranks_are_measured_and_written(tmp_path, capsys):
    path = tmp_path / "cpux2.json"
    assert cli.main(["probe", "--measure", "--profile", "cpux2", "--output", str(path)]) == 0
    found = Ceilings.from_json(path.read_bytes())
    assert found.arithmetic_flops["float32"] > 0
    assert found.memory_bytes_s > 0
    assert found.empty_collective_us > 0
    assert {rate.name for rate in found.collectives} == {"all_reduce", "all_gather", "all_to_all"}
    largest = max(
        (rate for rate in found.collectives if rate.name == "all_reduce"), key=lambda rate: rate.message_bytes
    )
    # n = 2: the factor 2 (n - 1) / n is one, so bus bandwidth is message over time.
    assert largest.bus_bytes_s == pytest.approx(largest.message_bytes / largest.median_us * 1e6, rel=0.01)
    assert "all-reduce of one element" in capsys.readouterr().out


@pytest.mark.skipif(bool(gpus.present()), reason="there are GPUs here")
def test_a_machine_without_the_gpus_says_so(capsys):
    assert cli.main(["probe", "--measure", "--profile", "h200x8-nomc"]) == 3
    assert "GPU" in capsys.readouterr().err


def test_every_stored_file_can_be_read():
    for name in profiles():
        found = stored(name)
        assert found is None or found.profile == name
