"""Machines as files: what profiles come of them, what a wrong file says, and what ranks on one GPU need."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from evaluator.contract import Backend, Mode, SourceBundle, SourceFile, Verdict
from evaluator.hardware import machines, profiles
from evaluator.hardware.machines import MachineFileError
from evaluator.host import Judge
from evaluator.host.machine.gpus import shortage, too_large
from evaluator.host.machine.nvml import GpuState
from evaluator.host.measure.gpu_memory import per_gpu
from evaluator.host.ranks.trusted_ranks import HeldMemory
from evaluator.judging.recompute import recompute
from evaluator.judging.source_rules import check_source
from evaluator.measuring import machine_draft
from problems import registry
from tests.evaluator.conftest import SETTINGS
from tests.evaluator.judging_help import request_for

ROOT = Path(__file__).parents[2]
SHIPPED = (machines.FOLDER / "h200.toml").read_text(encoding="utf-8")


@pytest.fixture
def added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder that PKB_MACHINES names."""
    monkeypatch.setenv(machines.ADDED, str(tmp_path))
    machines.machines.cache_clear()
    profiles.profiles.cache_clear()
    yield tmp_path
    machines.machines.cache_clear()
    profiles.profiles.cache_clear()


def test_a_file_in_the_folder_of_the_installation_makes_profiles(added: Path) -> None:
    text = SHIPPED.replace('"H200"', '"L40S"').replace('"9.0"', '"8.9"').replace("[2, 4, 8]", "[2]")
    text = text.replace("multicast = true", "multicast = false\npeer_access = false")
    (added / "l40s.toml").write_text(text, encoding="utf-8")
    profile = profiles.get("l40sx2-nomc")
    assert (profile.gpu, profile.gpus, profile.capability, profile.peer_access) == ("L40S", 2, 89, False)
    assert "l40sx2" not in profiles.profiles()
    assert profiles.architecture(profile.capability) == "89"


@pytest.mark.parametrize(
    ("was", "now", "words"),
    [
        ("sms = 132", "sms = -1", "the field sms is wrong: expected `int` >= 1"),
        ("fp8_flops = 1979e12\n", "", "the field peaks.fp8_flops is missing; add it"),
        ("[links]\n", "[links]\nlanes = 18\n", "there is no field links.lanes; remove it"),
        ('capability = "9.0"', "capability = 9.0", "the field capability is wrong: expected `str`, got `float`"),
        ("world_sizes = [2, 4, 8]", "world_sizes = [1]", "the field world_sizes[0] is wrong: expected `int` >= 2"),
        ("[peaks]", "[peaks", "is not TOML"),
    ],
)
def test_a_wrong_file_is_an_error_that_names_file_field_and_remedy(added: Path, was: str, now: str, words: str) -> None:
    (added / "ours.toml").write_text(SHIPPED.replace(was, now, 1), encoding="utf-8")
    with pytest.raises(MachineFileError) as raised:
        profiles.profiles()
    assert str(raised.value).startswith(f"{added}/ours.toml: ")
    assert words in str(raised.value)


@pytest.mark.parametrize("name", ["h200.toml", "gpu9.toml", "My Machine.toml"])
def test_a_file_cannot_take_a_name_that_is_taken_or_none(added: Path, name: str) -> None:
    (added / name).write_text(SHIPPED, encoding="utf-8")
    with pytest.raises(MachineFileError, match="name"):
        profiles.profiles()


def test_the_doctor_says_what_is_wrong_with_a_machine_file(added: Path) -> None:
    (added / "ours.toml").write_text(SHIPPED.replace("sms = 132", "sms = 'many'"), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "evaluator", "doctor"], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 2
    assert f"{added}/ours.toml: the field sms is wrong" in done.stderr
    assert "Traceback" not in done.stderr


def test_peer_pointers_where_pairs_lack_peer_access_are_unsupported_with_the_reason(added: Path) -> None:
    (added / "pcie.toml").write_text(SHIPPED.replace("multicast = true", "multicast = false\npeer_access = false"))
    text = "import torch.distributed._symmetric_memory as symm_mem\n\n\ndef solution(tensor):\n    return tensor\n"
    [found] = check_source(
        registry.get("allreduce"),
        SourceBundle(files=(SourceFile(path="solution.py", text=text),)),
        backend=Backend.CUDA,
        profile=profiles.get("pciex2-nomc"),
        mode=Mode.CHECK,
    )
    assert found.verdict is Verdict.UNSUPPORTED
    assert found.message == "_symmetric_memory needs peer access between GPUs, which those of pciex2-nomc do not have"


def test_a_drafted_file_is_right_once_its_rates_are_filled_in(tmp_path: Path) -> None:
    seen = machine_draft.Seen(
        names=("NVIDIA L40S", "NVIDIA L40S"), capability="8.9", sms=142, l2_bytes=100_663_296,
        peers=((True, False), (False, True)), memory_bytes_s=8.64e11,
    )  # fmt: skip
    path = tmp_path / "l40s.toml"
    path.write_text(machine_draft.text(seen), encoding="utf-8")
    with pytest.raises(MachineFileError, match=r"peaks\.bf16_flops is wrong"):
        machines.read(path)
    path.write_text(path.read_text(encoding="utf-8").replace("= 0", "= 1e12"), encoding="utf-8")
    found = machines.read(path)
    assert (found.model, found.capability, found.links.peer_access, found.links.multicast) == (
        "L40S",
        "8.9",
        False,
        False,
    )
    assert "# GPU 0 and 1: no peer access" in path.read_text(encoding="utf-8")
    alone = replace(seen, names=seen.names[:1], peers=((True,),))
    assert "# One GPU shows no links" in machine_draft.text(alone)


def test_too_many_ranks_for_the_memory_are_refused_with_both_figures() -> None:
    state = GpuState(index=0, busy_percent=0, total_bytes=24_000_000_000, used_bytes=4_000_000_000, processes={})
    assert shortage(profiles.get("gpu1r4"), state) == ""
    text = shortage(profiles.get("gpu1r8"), state)
    assert "need 35.2 GB" in text
    assert "20.0 GB free of 24.0 GB" in text


@pytest.mark.parametrize("gigabytes", [85.0, 150.8], ids=["H100", "H200"])
def test_a_size_whose_tensors_do_not_fit_is_refused_with_both_figures(gigabytes: float) -> None:
    state = GpuState(index=0, busy_percent=0, total_bytes=int(gigabytes * 1e9), used_bytes=0, processes={})
    table, small = registry.get("gnn_sparse_feature_fetch_projection"), registry.get("allreduce")
    text = too_large(table, profiles.get("gpu1r8"), "base", state)
    assert "need 163.3 GB of GPU memory at size base" in text
    assert f"has {gigabytes} GB" in text
    assert too_large(table, profiles.get("gpu1r8"), "tiny", state) == ""
    assert too_large(small, profiles.get("gpu1r8"), "base", state) == ""


def test_memory_is_counted_per_gpu_over_its_ranks() -> None:
    held = [HeldMemory(bytes=n, peak_bytes=10 * n) for n in (1, 2, 3, 4)]
    assert per_gpu(held, gpus=1) == (HeldMemory(bytes=10, peak_bytes=100),)
    assert per_gpu(held, gpus=4) == tuple(held)


@pytest.mark.parametrize(
    ("backend", "text", "words"),
    [
        (Backend.CUDA, "# multimem\nCODE = 'multimem.st'\n", "needs NVLink multicast, so several GPUs"),
        (Backend.NCCL_DEVICE, "", "where all ranks share one GPU, cannot judge backend nccl_device; it judges pytorch"),
    ],
)
def test_what_needs_several_gpus_is_unsupported_by_name(backend: Backend, text: str, words: str) -> None:
    source = SourceFile(path="solution.py", text=f"{text}def solution(tensor):\n    return tensor\n")
    [found] = check_source(
        registry.get("allreduce"),
        SourceBundle(files=(source,)),
        backend=backend,
        profile=profiles.get("gpu1r2"),
        mode=Mode.CHECK,
    )
    assert found.verdict is Verdict.UNSUPPORTED
    assert words in found.message


def test_a_profile_that_measures_no_time_ranks_without_any(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where ranks share a GPU, here with CPU ranks: every size is tried, and no time leaves the judge."""
    monkeypatch.setitem(profiles.profiles(), "cpux2", replace(profiles.get("cpux2"), measures_time=False))
    with Judge(replace(SETTINGS, work_dir=tmp_path)) as judge:
        report = judge.evaluate(request_for("correct", mode=Mode.RANKED))
        wrong = judge.evaluate(request_for("wrong_on_rank_one", mode=Mode.RANKED))
    assert report.verdict is Verdict.PASSED, report.findings
    assert wrong.verdict is Verdict.WRONG_RESULT
    assert report.is_untimed
    assert report.timing is None
    assert report.record is not None
    calls = [call for size in report.record.sizes for call in size.calls]
    drawn = {call.regime.partition(":")[0] for call in calls}  # without the numbers that it drew
    assert drawn >= {regime.name for regime in registry.get("allreduce").regimes}
    assert not any(call.time_ns or call.claimed_ns for call in calls)
    assert recompute(report).agrees
