"""A real judge under ten minutes of attacks made by chance (make gate): none of them becomes a failure of ours.

PKB_FUZZ_SECONDS says for how long, PKB_TEST_SEED from which seed. A failure names the seed that makes it again.
"""

import collections
import dataclasses
import json
import os
import random
import struct
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from evaluator.contract import MOST_REPORT_BYTES, Backend, ContractError, Delivery, EvaluationReport, Verdict
from evaluator.hardware import profiles
from evaluator.host import Judge, JudgeSettings
from evaluator.host.building.builder import Builder
from evaluator.host.building.builder_process import BuildLimits
from evaluator.host.sandbox import bubblewrap, doctor
from evaluator.node.report_size import fitted
from evaluator.sources import SourceError, read_source
from tests.evaluator import fuzz_programs
from tests.evaluator.conftest import SETTINGS
from tests.evaluator.judging_help import evaluate_within, request_for

OURS = {Verdict.JUDGE_ERROR, Verdict.JUDGE_FAILURE}
DEADLINE_S = 20.0
LONGEST_HOLD_S = DEADLINE_S + 30.0
SECONDS = float(os.environ.get("PKB_FUZZ_SECONDS", "600"))
SEED = os.environ.get("PKB_TEST_SEED", "")
GPU_PROFILE = "h200x2-nomc"


@pytest.fixture(scope="module")
def slot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    settings = dataclasses.replace(SETTINGS, work_dir=tmp_path_factory.mktemp("slot"), call_limit_s=3.0, import_s=6.0)
    with Judge(settings) as judge:
        yield judge


def assert_no_failure_of_ours(slot: Judge, kind: str, seed: str) -> tuple[EvaluationReport, float]:
    """The report on one attack, whose verdict is the attack's own and in time; and for how long it held the slot."""
    source = fuzz_programs.JUDGED[kind](random.Random(seed))
    request = msgspec.structs.replace(request_for("correct"), evaluation_id=seed, source=source)
    report, held_s = evaluate_within(slot, request, seconds=DEADLINE_S)
    assert report.verdict not in OURS, f"seed {seed}: {report.findings}\n{slot.error_log}\n{source.entry}"
    assert not slot.quarantine, f"seed {seed}: {slot.quarantine}\n{source.entry}"
    assert held_s < LONGEST_HOLD_S, f"seed {seed} held the slot for {held_s:.0f} s\n{source.entry}"
    return as_the_site_gets_it(report, seed), held_s


def as_the_site_gets_it(report: EvaluationReport, seed: str) -> EvaluationReport:
    """The report after it was made to fit a message, written and read."""
    text = fitted(Delivery(lease="l", node="n", report=report)).to_json()
    assert len(text.encode()) <= MOST_REPORT_BYTES, seed
    return Delivery.from_json(text).report


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(fuzz_programs.JUDGED))
def test_an_attack_of_each_kind_is_no_failure_of_ours(slot: Judge, kind: str) -> None:
    assert_no_failure_of_ours(slot, kind, f"{kind} first {SEED}")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_archives_are_read_or_refused(tmp_path: Path) -> None:
    dice = random.Random(f"archives {SEED}")
    for number in range(300):
        path = tmp_path / f"{number}.zip"
        path.write_bytes(fuzz_programs.archive(dice))
        try:
            assert read_source(path).entry
        except (SourceError, ContractError):
            continue


@pytest.mark.parametrize("packing", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_an_archive_that_unpacks_by_the_block_is_refused_before_it_does(tmp_path: Path, packing: int) -> None:
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w", packing) as file:
        file.writestr("solution.py", bytes(1 << 24))
    path.write_bytes(path.read_bytes().replace(struct.pack("<I", 1 << 24), struct.pack("<I", 100)))
    with pytest.raises(SourceError, match="deflate"):
        read_source(path)


@pytest.mark.slow
def test_builds_end_with_something_to_show(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert_builds_end(tmp_path, tmp_path_factory, count=3)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_ten_minutes_of_attacks_are_no_failure_of_ours(
    slot: Judge, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: collections.Counter[tuple[str, str]] = collections.Counter()
    longest = (0.0, "")
    end, number = time.monotonic() + SECONDS, 0
    while time.monotonic() < end:
        for kind in fuzz_programs.JUDGED:
            seed = f"{kind} {number} {SEED}"
            report, held_s = assert_no_failure_of_ours(slot, kind, seed)
            seen[kind, report.verdict.value] += 1
            longest = max(longest, (held_s, seed))
        number += 1
    builds = assert_builds_end(tmp_path, tmp_path_factory, count=20)
    assert slot.evaluate(request_for("correct")).verdict is Verdict.PASSED
    with capsys.disabled():
        rows = json.dumps({f"{kind} {verdict}": count for (kind, verdict), count in sorted(seen.items())}, indent=1)
        print(f"\n{sum(seen.values())} attacks, {builds} builds; longest hold {longest}\n{rows}")  # noqa: T201


def assert_builds_end(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, *, count: int) -> int:
    """Build `count` odd programs: each result can be shown, and nothing stays in the work directory."""
    profile, private = profiles.get(GPU_PROFILE), tmp_path_factory.mktemp("survey")
    bubblewrap.write_private(private)
    settings = JudgeSettings(profile=GPU_PROFILE)
    confinement = doctor.resolve(profile, settings, private=private)
    builder = Builder(settings, cache=tmp_path_factory.mktemp("builds"), limits=BuildLimits(seconds=30))
    for number in range(count):
        seed = f"build {number} {SEED}"
        source = fuzz_programs.build(random.Random(seed))
        request = msgspec.structs.replace(
            request_for("correct"), source=source, profile=GPU_PROFILE, backend=Backend.CUDA
        )
        built = builder.build(request, workdir=tmp_path, sandbox=confinement)
        assert len(built.result.to_json()) < 2_000_000, seed
        assert not list(tmp_path.iterdir()), seed
    return count
