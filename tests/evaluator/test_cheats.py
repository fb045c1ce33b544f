"""Every cheat of the catalogue is caught with a verdict that fits, and no honest twin is refused."""

import dataclasses
import os
import random
import shutil
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
import torch.distributed as dist

from evaluator.arena.rank.collective_count import CollectiveCount
from evaluator.contract import Backend, EvaluationReport, EvaluationRequest, Mode, SourceBundle, SourceFile, Verdict
from evaluator.hardware import profiles
from evaluator.host import Judge, JudgeSettings
from evaluator.host.building.builder import Builder
from evaluator.host.building.builder_process import BuildLimits
from evaluator.host.sandbox import bubblewrap, doctor
from evaluator.judging import source_rules
from evaluator.judging.checks import Check
from problems import registry
from tests.evaluator.cheat_corpus import Program, programs, varied
from tests.evaluator.conftest import SETTINGS
from tests.evaluator.forged_times import are_claims_short, gain
from tests.evaluator.judging_help import request_for

QUICK = dataclasses.replace(SETTINGS, blocks=2)
"""Two blocks show what twelve would; the long tests judge as a site does."""

HOPELESS = 0.5
"""Programs that forge times sleep for a hundred times as long as the reference takes, or more."""

TWINS_TOGETHER = 8
ROUNDS = 10

JUDGED = {name: program for name, program in programs().items() if not program.judged and program.is_runnable}
CHEATS = [name for name, program in JUDGED.items() if not program.is_twin]
FORGERS = [name for name in CHEATS if JUDGED[name].forges_time]
LUCKY = {"m7_missing_barrier": 4, "m10_refilled_buffer": 4, "r08_cache_by_sum": 4}
"""How often a cheat is judged again where it PASSED. In a skewed call a rank is 7 to 32 ms later than the others wait,
which a busy machine hides now and then. If it does in one judgement of five, it does in all five once in 3,000. Sums
stay, on one rank of two at least, in three near calls of four."""
NEEDS_QUIET = ["r36_burning_peers"]
"""Where a busy machine leaves the cheat too little processor time to be a cheat."""
TWINS = [name for name, program in JUDGED.items() if program.is_twin]
LIKE = [name for name in TWINS if JUDGED[name].problem == "allreduce" and not JUDGED[name].sizes]
OTHERS = [name for name in TWINS if name not in LIKE]
GROUPS = [LIKE[start : start + TWINS_TOGETHER] for start in range(0, len(LIKE), TWINS_TOGETHER)]
READ = [name for name, program in programs().items() if program.judged.startswith("source")]
BUILT = [name for name, program in programs().items() if program.judged == "built"]
COUNTED = [name for name, program in programs().items() if program.judged == "counted"]


def in_turn(names: list[str]) -> EvaluationRequest:
    """Several honest programs for one problem as one submission: every call is answered by the next of them."""
    files = [SourceFile(path=f"{name}.py", text=JUDGED[name].text) for name in names]
    text = (
        f"import importlib\n\n_ways = [importlib.import_module(name).solution for name in {names!r}]\n_calls = 0\n\n\n"
        "def solution(tensor):\n    global _calls\n    _calls += 1\n"
        "    return _ways[(_calls - 1) % len(_ways)](tensor)\n"
    )
    source = SourceBundle(files=(*files, SourceFile(path="solution.py", text=text)))
    return with_source(JUDGED[names[0]].request(), source)


def request_of(name: str) -> EvaluationRequest:
    """To judge a program, or the honest ones that "+" joins."""
    return in_turn(name.split("+")) if "+" in name else JUDGED[name].request()


def with_source(request: EvaluationRequest, source: SourceBundle) -> EvaluationRequest:
    """The same request for another source, ranked: there are more calls than programs."""
    return EvaluationRequest(
        evaluation_id="twins",
        problem=request.problem,
        revision=request.revision,
        source=source,
        backend=request.backend,
        profile=request.profile,
        mode=Mode.RANKED,
    )


class Bench:
    """Two judges that share the work: while one measures, the other's next worker group starts."""

    def __init__(self, work_dir: Path) -> None:
        self._judges = [Judge(dataclasses.replace(QUICK, work_dir=work_dir)) for _ in range(2)]
        self._free = list(self._judges)
        self._pool = ThreadPoolExecutor(max_workers=2)

    def submit(self, request: EvaluationRequest) -> "Future[EvaluationReport]":
        """Judge `request` as soon as a judge is free."""
        return self._pool.submit(self._judge, request)

    def _judge(self, request: EvaluationRequest) -> EvaluationReport:
        judge = self._free.pop()
        try:
            return judge.evaluate(request)
        finally:
            self._free.append(judge)

    def close(self) -> None:
        """End both, whatever is still waiting."""
        self._pool.shutdown(cancel_futures=True)
        for judge in self._judges:
            judge.close()


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    started = Bench(tmp_path_factory.mktemp("bench"))
    yield started
    started.close()


@pytest.fixture(scope="module")
def reports(bench: Bench, request: pytest.FixtureRequest) -> dict[str, "Future[EvaluationReport]"]:
    """What the judges say of every program that a chosen test asks for."""
    judged = {*CHEATS, *OTHERS, *("+".join(names) for names in GROUPS)}
    asked = [item.callspec.params.get("name") for item in request.session.items if hasattr(item, "callspec")]
    return {name: bench.submit(request_of(name)) for name in dict.fromkeys(asked) if name in judged}


def refused(report: EvaluationReport) -> str:
    """Why, for the one who reads a failed test."""
    said = [f"{finding.verdict}: {finding.message}" for finding in report.findings]
    return "\n".join([f"{report.verdict}", *said, *(rank.error or rank.log[-500:] for rank in report.ranks)])


@pytest.mark.parametrize("name", [name for name in CHEATS if name not in NEEDS_QUIET])
def test_cheat_is_caught(reports: dict[str, "Future[EvaluationReport]"], bench: Bench, name: str) -> None:
    request, accepted = JUDGED[name].request(), JUDGED[name].accepted
    report = without_luck(bench, request, reports[name].result())
    if Verdict.TIMEOUT not in accepted:
        report = in_time(bench, request, report)
    assert report.verdict in accepted, refused(report)


def without_luck(bench: Bench, request: EvaluationRequest, report: EvaluationReport) -> EvaluationReport:
    """The first report in which a cheat that luck may hide did not pass, after as many judgements as `LUCKY` says."""
    for _ in range(LUCKY.get(request.evaluation_id, 0)):
        if report.verdict is Verdict.PASSED:
            report = bench.submit(request).result()
    return report


def in_time(bench: Bench, request: EvaluationRequest, report: EvaluationReport) -> EvaluationReport:
    """The report, or another judgement's after TIMEOUT: five seconds are few on a machine that does much else."""
    return bench.submit(request).result() if report.verdict is Verdict.TIMEOUT else report


@pytest.mark.parametrize("name", FORGERS)
def test_a_forged_time_gains_nothing(reports: dict[str, "Future[EvaluationReport]"], name: str) -> None:
    assert_nothing_gained(reports[name].result())


def assert_nothing_gained(report: EvaluationReport) -> None:
    """It sleeps in each call and its ranks report no time at all: its score shows that it is far too slow."""
    assert report.timing is not None, refused(report)
    assert are_claims_short(report)
    assert gain(report) is None
    assert report.timing.score < HOPELESS


@pytest.mark.parametrize("name", ["+".join(names) for names in GROUPS] + OTHERS)
def test_honest_twins_pass(reports: dict[str, "Future[EvaluationReport]"], bench: Bench, name: str) -> None:
    report = in_time(bench, request_of(name), reports[name].result())
    assert report.verdict is Verdict.PASSED, refused(report)


@pytest.mark.parametrize("name", READ)
def test_source_is_read_for_library_collectives(name: str) -> None:
    program = programs()[name]
    request = program.request(profile="h200x4")
    found = source_rules.check_source(
        registry.get(program.problem),
        request.source,
        backend=Backend.CUDA,
        profile=profiles.get("h200x4"),
        mode=Mode.RANKED,
    )
    assert {finding.verdict for finding in found} or {Verdict.PASSED} <= program.accepted
    in_check_mode = source_rules.warnings(request.source, backend=Backend.CUDA, mode=Mode.CHECK)
    assert [warning.line for warning in in_check_mode] == [finding.line for finding in found]
    assert not source_rules.warnings(request.source, backend=Backend.PYTORCH, mode=Mode.CHECK)


@pytest.mark.parametrize("name", COUNTED)
def test_collectives_that_move_data_are_counted(tmp_path: Path, name: str) -> None:
    import torch

    program = programs()[name]
    space: dict[str, object] = {}
    exec(program.text, space)  # a program of the corpus itself
    dist.init_process_group("gloo", store=dist.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1)
    try:
        with CollectiveCount(is_wanted=True) as counted:
            space["solution"](torch.ones(64, 64))
    finally:
        dist.destroy_process_group()
    assert (counted.moved == 0) is (Verdict.PASSED in program.accepted)


@pytest.mark.skipif(not (shutil.which("nvcc") and shutil.which("bwrap")), reason="no nvcc, or no bubblewrap")
@pytest.mark.parametrize("name", BUILT)
def test_what_compiles_gets_no_further_than_its_own_folder(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    program, profile = programs()[name], profiles.get("h200x2-nomc")
    private, cache = tmp_path_factory.mktemp("survey"), tmp_path_factory.mktemp("builds")
    bubblewrap.write_private(private)
    settings = JudgeSettings(profile=profile.name)
    builder = Builder(
        settings, cache=cache, limits=BuildLimits(seconds=6 if Verdict.LIMIT_EXCEEDED in program.accepted else 60)
    )
    confinement = doctor.resolve(profile, settings, private=private)
    built = builder.build(program.request(profile=profile.name), workdir=tmp_path, sandbox=confinement)
    verdicts = {finding.verdict for finding in built.findings} or {Verdict.PASSED}
    assert verdicts <= program.accepted, (built.findings, built.result.log[-2000:])
    assert bool(built.result.artefacts) is program.is_twin
    assert not list(tmp_path.iterdir())
    assert {path.name for path in cache.rglob("*") if path.is_file()} <= {"record.json", "tables.so"}


def test_every_row_has_its_program_and_its_twin() -> None:
    """But 25, 35, 38, 39, 41 and from 49 on, tested elsewhere, and 37, which is none (docs/judge/cheats.md)."""
    elsewhere = {25, 35, 37, 38, 39, 41}
    rows = {f"r{row:02}" for row in range(1, 49) if row not in elsewhere} | {f"m{row}" for row in range(1, 11)}
    for is_twin in (False, True):
        assert {name.partition("_")[0] for name, program in programs().items() if program.is_twin is is_twin} == rows


def test_slow_first_calls_leave_the_number_of_timed_calls_as_it_is(bench: Bench) -> None:
    """Row 25, iteration-count gaming."""
    slow = (
        "import time\n\nimport torch.distributed as dist\n\n_calls = 0\n\n\ndef solution(tensor):\n    global _calls\n"
        "    _calls += 1\n    if _calls < 4:\n        time.sleep(0.2)\n    out = tensor.clone()\n"
        "    dist.all_reduce(out)\n    return out\n"
    )
    request = JUDGED["r24_phase_detection_twin"].request(text=slow)
    report = bench.submit(request).result()
    assert report.record is not None
    record = report.record.sizes[0]
    assert len(record.blocks) == QUICK.blocks
    least, most = QUICK.practice_min_phase_calls, QUICK.practice_max_phase_calls
    assert {len(block) for block in record.blocks} <= {2 * calls for calls in range(least, most + 1)}
    assert all(len(block) == len(theirs) for block, theirs in zip(record.blocks, record.reference, strict=True))


# ---- make gate ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("program", [JUDGED[name] for name in (*CHEATS, *TWINS)], ids=[*CHEATS, *TWINS])
def test_variations_get_the_same_verdict_ten_times(bench: Bench, program: Program) -> None:
    dice = random.Random(program.name + os.environ.get("PKB_TEST_SEED", ""))
    texts = [varied(program.text, dice) for _ in range(ROUNDS)]
    if program.name in NEEDS_QUIET:
        texts = texts[:1]
    requests = [program.request(text=text) for text in texts]
    for request, future in [(request, bench.submit(request)) for request in requests]:
        report = without_luck(bench, request, future.result())
        assert report.verdict in program.accepted, refused(report)
        if program.forges_time:
            assert_nothing_gained(report)


SWITCHED_OFF = [
    (Check.FRESH_INPUTS, "r08_cache_by_shape", Verdict.PASSED),
    (Check.NEAR_INPUTS, "r08_cache_by_samples", Verdict.PASSED),
    (Check.SKEWED_STARTS, "m7_missing_barrier", Verdict.PASSED),
    (Check.VALUES, "r20_constant_output", Verdict.PASSED),
    (Check.EVERY_RANK, "m4_rank_asymmetry", Verdict.PASSED),
    (Check.TIMED_CALLS, "r24_phase_detection", Verdict.PASSED),
    (Check.FINGERPRINT, "r28_harness_mutation", Verdict.PASSED),
    (Check.INPUTS, "r12_input_mutation", Verdict.PASSED),
    (Check.IDLE, "r36_burning_peers", Verdict.PASSED),
    # Without the poison it is still wrong, but nobody could say why.
    (Check.POISON, "r28_unstored_output", Verdict.WRONG_RESULT),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("check", "name", "verdict"), SWITCHED_OFF, ids=[f"{check.name} {name}" for check, name, _ in SWITCHED_OFF]
)
def test_without_the_check_the_cheat_gets_through(tmp_path: Path, check: Check, name: str, verdict: Verdict) -> None:
    report = judged_without(tmp_path, check, name, verdict)
    assert report.verdict is verdict, refused(report)
    assert check.value in report.environment["judge.without"]


def judged_without(tmp_path: Path, check: Check, name: str, hoped: Verdict) -> EvaluationReport:
    """What the judge says of a cheat with a check switched off; luck that a busy machine spoils has three tries."""
    if name not in JUDGED:
        pytest.skip("not for this processor")
    # The recorded call after the timed ones, and the calls in regimes, are compared too and would show some of them.
    off = frozenset({check, Check.REGIMES})
    settings = dataclasses.replace(QUICK, work_dir=tmp_path, without=off, warm=False, records_work=False)
    with Judge(settings) as judge:
        for _ in range(3):
            report = judge.evaluate(JUDGED[name].request())
            if report.verdict is hoped:
                break
    return report


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_second_group_repeats_part_of_a_ranked_series_at_every_size(tmp_path: Path) -> None:
    settings = dataclasses.replace(SETTINGS, work_dir=tmp_path, second_group_share=0.25)
    request = msgspec.structs.replace(request_for("correct", mode=Mode.RANKED), sizes=("tiny", "base"))
    with Judge(settings) as judge:
        report = judge.evaluate(request)
    assert report.verdict is Verdict.PASSED, refused(report)
    assert report.record is not None
    assert [(size.size, size.group_number) for size in report.record.sizes] == [
        ("tiny", 1),
        ("base", 1),
        ("tiny", 2),
        ("base", 2),
    ]
    assert report.timing is not None
    for found in report.timing.sizes:
        blocks = [len(size.blocks) for size in report.record.sizes if size.size == found.size]
        assert len(found.ratios) == sum(blocks)
        assert min(blocks) > 1


@pytest.mark.slow
@pytest.mark.parametrize("slug", [problem.slug for problem in registry.problems()])
def test_every_reference_passes_as_a_submission(bench: Bench, slug: str) -> None:
    if registry.get(slug).refuses_world_size(2) is not None:
        pytest.skip("not on two ranks")
    request = EvaluationRequest(
        evaluation_id=slug,
        problem=slug,
        revision=registry.revision(slug),
        source=SourceBundle(
            files=(SourceFile(path="solution.py", text=(registry.folder(slug) / "reference.py").read_text()),)
        ),
        backend=Backend.PYTORCH,
        profile="cpux2",
        mode=Mode.CHECK,
    )
    report = bench.submit(request).result()
    assert report.verdict is Verdict.PASSED, refused(report)
