"""What recorded calls say: score, interval, and what speaks against them; and that anyone can compute it again."""

import random

import msgspec
import pytest

from evaluator import cli
from evaluator.contract import (
    Backend,
    Burst,
    CallKind,
    CallRecord,
    EvaluationReport,
    Finding,
    GpuReading,
    Mode,
    Record,
    ReferenceCall,
    SizeRecord,
    SlotKind,
    TimingRules,
    Verdict,
)
from evaluator.hardware import profiles
from evaluator.judging import timing
from evaluator.judging.checks import Check
from evaluator.judging.recompute import recompute

RULES = TimingRules(
    band_us=50.0,
    band_bytes_us=1000.0,
    settle_ratio=1.05,
    settle_jitter_us=20.0,
    baseline_drift=0.03,
    baseline_jitter_us=5.0,
    busy_cores=0.1,
    reading_us=40.0,
    burst_us=20.0,
    burst_most_us=50.0,
    burst_ratio=1.1,
    burst_bytes_us=1000.0,
    by_block=True,
)


def reading(*reasons: str) -> tuple[GpuReading, ...]:
    return (
        GpuReading(
            gpu=1, moment="after", sm_mhz=1200, memory_mhz=3201, watts=412.0, celsius=88, throttled_by=tuple(reasons)
        ),
    )


def series(
    *,
    candidate_us: float = 100.0,
    gap_us: float = 40.0,
    late_us: float = 0.0,
    reference_us: tuple[float, ...] = (200.0,) * 12,
    payload_bytes: int = 0,
    floor_us: float | None = None,
    busy_ms: float = 0.0,
    gang: int = 1,
    seed: int = 1,
    late_factor: float = 1.0,
) -> SizeRecord:
    """Four calls a block on two ranks; rank 1 is the slower one. The reference is answered 30 us after its end.

    In the second half of the blocks the submission takes `late_factor` times as long.
    """
    dice = random.Random(seed)
    calls = []
    for number in range(1, 4 * len(reference_us) + 1):
        own_us = candidate_us * dice.uniform(0.99, 1.01) * (late_factor if number > 2 * len(reference_us) else 1.0)
        calls.append(
            CallRecord(
                number=number,
                kind=CallKind.PLAIN,
                content=number,
                near=None,
                is_reused=False,
                is_checked=True,
                delays_us=(0, 0),
                window_ns=int((own_us + gap_us + 500) * 1000),
                answer_ns=int((own_us + gap_us) * 1000),
                claimed_ns=(int(own_us * 900), int(own_us * 1000)),
                settled_ns=(int(own_us * 900), int((own_us + late_us) * 1000)),
                fingerprints=("0" * 16, "1" * 16),
                max_error=0.1,
            )
        )
    return SizeRecord(
        size="tiny",
        payload_bytes=payload_bytes,
        floor_us=floor_us,
        calls=tuple(calls),
        blocks=tuple(tuple(range(4 * block + 1, 4 * block + 5)) for block in range(len(reference_us))),
        reference=tuple(
            (ReferenceCall(longest_ns=int(time_us * 1000), answer_ns=int((time_us + 30) * 1000)),) * 4
            for time_us in reference_us
        ),
        watched_ns=1_000_000_000,
        busy_ns=int(busy_ms * 1e6),
        gang=gang,
    )


def burst(calls: int, window_us: float) -> Burst:
    return Burst(calls=calls, window_ns=int(window_us * 1000), answer_ns=int((window_us - 60) * 1000))


def with_bursts(record: SizeRecord, *, single_us: float, of_eight_us: float) -> SizeRecord:
    """One of three bursts of either length was disturbed."""
    windows = {1: (single_us, single_us, 9 * single_us), 8: (of_eight_us, 5 * of_eight_us, of_eight_us)}
    return msgspec.structs.replace(
        record,
        kept_gaps_ns=(600_000,) * 12,
        bursts=tuple(burst(calls, each) for calls, all_of_it in windows.items() for each in all_of_it),
    )


def report_of(*records: SizeRecord) -> EvaluationReport:
    """A passed report over `records`, as the judge writes it."""
    found, against = timing.settle(records, RULES)
    verdict = against[0].verdict if against else Verdict.PASSED
    return EvaluationReport(
        evaluation_id="synthetic",
        problem="allreduce",
        revision="0",
        source_digest="0",
        backend=Backend.PYTORCH,
        profile="cpux2",
        world_size=2,
        mode=Mode.RANKED,
        dtype="bfloat16",
        verdict=verdict,
        message="",
        findings=(Finding(verdict=verdict, message=""),),
        timing=None if against else found,
        record=Record(rules=RULES, sizes=records),
    )


def test_a_times_score_is_the_median_of_blocks_of_sums():
    found, against = timing.settle([series()], RULES)
    assert not against
    assert found.score == pytest.approx(2.0, rel=0.01)
    assert found.sizes[0].rank_medians_us[0] < found.sizes[0].rank_medians_us[1]


SUSPICIOUS = [
    (Check.WINDOW, series(candidate_us=1.0, gap_us=139.0), Verdict.TIMING_INCONSISTENT, "on the host's clock"),
    (
        Check.WINDOW,
        msgspec.structs.replace(series(gap_us=210.0), kept_gaps_ns=(150_000,) * 12),
        Verdict.TIMING_INCONSISTENT,
        "bookkeeping can take 200.",
    ),
    (
        Check.WINDOW,
        msgspec.structs.replace(series(), kept_windows_ns=(400_000,) * 12),
        Verdict.TIMING_INCONSISTENT,
        "us after their contents could be read; reading and bookkeeping can take 490.0 us",
    ),
    (
        Check.BURST,
        with_bursts(series(), single_us=700.0, of_eight_us=1900.0),
        Verdict.TIMING_INCONSISTENT,
        "took 171.4",
    ),
    (Check.WINDOW, series(candidate_us=0.4, gap_us=40.0), Verdict.TIMING_INCONSISTENT, "no call less than"),
    (Check.SECOND_TIMER, series(late_us=30.0), Verdict.TIMING_INCONSISTENT, "does not wait for"),
    (Check.IDLE, series(busy_ms=400.0), Verdict.TIMING_INCONSISTENT, "0.40 processors busy"),
    (Check.FLOOR, series(floor_us=150.0), Verdict.BELOW_FLOOR, "below the floor"),
    (Check.DRIFT, series(reference_us=(200.0,) * 6 + (210.0,) * 6), Verdict.BASELINE_UNSTABLE, "drifted"),
    (
        Check.DRIFT,
        msgspec.structs.replace(series(), gpus=reading("sw_power_cap", "hw_thermal_slowdown")),
        Verdict.BASELINE_UNSTABLE,
        "GPU 1 was held back (hw_thermal_slowdown)",
    ),
]


@pytest.mark.parametrize(("check", "record", "verdict", "words"), SUSPICIOUS, ids=[row[3] for row in SUSPICIOUS])
def test_each_check_finds_its_own_and_nothing_does_without_it(check, record, verdict, words):
    _, (finding,) = timing.settle([record], RULES)
    assert finding.verdict is verdict
    assert words in finding.message
    assert timing.settle([record], RULES, without=frozenset({check}))[1] == []


HONEST = {
    "answers as late as the band allows": series(gap_us=79.0),
    "a large payload takes time to copy": series(gap_us=1000.0, payload_bytes=1_000_000),
    "a device a little later than the stream": series(late_us=19.0),
    "a slow call whose device settles within the ratio": series(candidate_us=10_000.0, late_us=400.0),
    "a tick of processor time": series(busy_ms=10.0),
    "a GPU at its power cap": msgspec.structs.replace(series(), gpus=reading("sw_power_cap", "gpu_idle")),
    "a host that was slower to both": series(reference_us=(200.0,) * 6 + (250.0,) * 6, late_factor=1.25),
    "a submission that warms up": series(late_factor=0.8),
    "drift within the jitter of a launch": series(reference_us=(100.0,) * 6 + (104.0,) * 6),
    "a reference whose halves scatter into each other": series(reference_us=(200.0,) * 5 + (212.0,) + (208.0,) * 6),
    "reading takes as long as the reference's ranks take": msgspec.structs.replace(
        series(), kept_windows_ns=(460_000,) * 12
    ),
    "bursts that go on as fast as single calls": with_bursts(series(), single_us=700.0, of_eight_us=1500.0),
    "bursts whose payload takes time": with_bursts(series(payload_bytes=50_000), single_us=700.0, of_eight_us=1900.0),
    "too few bursts to tell": msgspec.structs.replace(
        series(), bursts=(burst(1, 700.0), burst(8, 9000.0), burst(8, 9000.0))
    ),
    "answers as late as the reference's where its ranks keep books too": msgspec.structs.replace(
        series(gap_us=190.0), kept_gaps_ns=(150_000,) * 12
    ),
}


@pytest.mark.parametrize("record", HONEST.values(), ids=HONEST)
def test_honest_times_stand(record):
    assert timing.settle([record], RULES)[1] == []


def test_practice_boards_judge_neither_drift_nor_floor():
    rules = profiles.get("cpux2").timing_rules(SlotKind.HOST_MEMORY)
    noisy = series(reference_us=(100.0,) * 6 + (300.0,) * 6, gap_us=20_000.0)
    assert timing.settle([noisy], rules)[1] == []


def test_the_limit_of_busy_processors_grows_with_the_ranks_and_lets_them_stay_awake_on_gpus():
    def verdicts(profile: str, *, busy_ms: float) -> set[Verdict]:
        """Of a second watched; bands, floor and drift are not in question."""
        rules = profiles.get(profile).timing_rules(SlotKind.DEVICE_MEMORY)
        return {finding.verdict for finding in timing.settle([series(busy_ms=busy_ms)], rules)[1]}

    assert verdicts("cpux2", busy_ms=45) == verdicts("cpux4", busy_ms=85) == set()
    assert verdicts("cpux2", busy_ms=55) == verdicts("cpux4", busy_ms=95) == {Verdict.TIMING_INCONSISTENT}
    assert verdicts("h200x2-nomc", busy_ms=2_000) == verdicts("h200x4-nomc", busy_ms=4_000) == set()
    assert (
        verdicts("h200x2-nomc", busy_ms=7_000)
        == verdicts("h200x4-nomc", busy_ms=14_000)
        == {Verdict.TIMING_INCONSISTENT}
    )


def test_a_thousand_clones_do_not_raise_the_ranked_value():
    """Row 39, noise mining: the lower end of the luckiest clone stays below the score of the honest median."""
    lows = [timing.settle([series(seed=seed)], RULES)[0].low for seed in range(200)]
    assert max(lows) < 2.0 * 1.01


def test_a_second_gang_that_agrees_leaves_the_first_score_and_a_slower_full_series_replaces_it():
    first = series()
    few = series(reference_us=(200.0,) * 3, gang=2, seed=2)
    alone, _ = timing.settle([first], RULES)
    assert timing.settle([first, few], RULES)[0] == alone
    assert timing.agrees([few], alone, RULES)
    slower = series(candidate_us=130.0, gang=2)
    assert not timing.agrees([slower], alone, RULES)
    assert timing.settle([first, slower], RULES)[0].score == pytest.approx(200 / 130, rel=0.01)


def test_a_disturbed_block_of_a_second_gang_does_not_make_it_disagree():
    alone, _ = timing.settle([series()], RULES)
    disturbed = series(reference_us=(200.0, 200.0, 140.0), gang=2, seed=2)
    assert timing.agrees([disturbed], alone, RULES)
    assert not timing.agrees([series(reference_us=(140.0,) * 3, gang=2, seed=2)], alone, RULES)


@pytest.mark.parametrize(
    ("first", "second", "is_refused"),
    [
        (series(gap_us=139.0), series(gang=2, seed=2), False),
        (series(), series(gap_us=139.0, gang=2, seed=2), False),
        (series(gap_us=139.0), series(gap_us=139.0, gang=2, seed=2), True),
        (series(gap_us=139.0), with_bursts(series(gang=2), single_us=700.0, of_eight_us=1900.0), True),
        (series(), series(gap_us=139.0, reference_us=(200.0,) * 3, gang=2, seed=2), False),
        (series(gap_us=139.0), series(reference_us=(200.0,) * 3, gang=2, seed=2), True),
    ],
    ids=["a busy moment", "a later one", "both", "both, by different clocks", "a part", "nobody looked again"],
)
def test_claims_are_refused_where_both_gangs_leave_them_in_doubt(first, second, is_refused):
    found = timing.settle([first, second], RULES)[1]
    assert {finding.verdict for finding in found} == ({Verdict.TIMING_INCONSISTENT} if is_refused else set())


def forged(record: SizeRecord, *, blocks: int, calls: int, claim_us: float = 3.0) -> SizeRecord:
    """The same series where the ranks claim `claim_us` for so many calls of so many blocks, answered as before."""
    numbers = {number for block in record.blocks[:blocks] for number in block[:calls]}

    def claimed(call: CallRecord) -> CallRecord:
        if call.number not in numbers:
            return call
        claims = (int(claim_us * 1000),) * 2
        return msgspec.structs.replace(call, claimed_ns=claims, settled_ns=claims)

    return msgspec.structs.replace(record, calls=tuple(map(claimed, record.calls)))


@pytest.mark.parametrize(
    ("blocks", "calls", "is_refused"),
    [(7, 3, True), (6, 4, True), (12, 4, True), (11, 2, True), (12, 1, False), (5, 4, False)],
)
def test_claims_forged_for_a_part_of_the_calls_are_refused_or_gain_nothing(blocks, calls, is_refused):
    honest = series(candidate_us=1000.0, gap_us=30.0)
    score = timing.settle([honest], RULES)[0].low
    found, against = timing.settle([forged(honest, blocks=blocks, calls=calls)], RULES)
    assert {finding.verdict for finding in against} == ({Verdict.TIMING_INCONSISTENT} if is_refused else set())
    assert is_refused or found.low < 1.02 * score


def test_reports_from_before_count_as_they_did():
    before = msgspec.structs.replace(RULES, by_block=False)
    part = series(gap_us=139.0, reference_us=(200.0,) * 3, gang=2, seed=2)
    found, (finding,) = timing.settle([series(), part], before)
    assert finding.verdict is Verdict.TIMING_INCONSISTENT
    assert found == timing.settle([series()], before)[0]
    in_part = forged(series(), blocks=12, calls=1)
    assert timing.settle([in_part], before)[0].score > 1.2 * timing.settle([in_part], RULES)[0].score


def test_a_burst_of_one_that_is_slow_on_purpose_hides_no_long_one():
    slow = with_bursts(series(candidate_us=10.0), single_us=1700.0, of_eight_us=1900.0)
    assert timing.burst_us(slow, RULES) > 100
    assert Verdict.TIMING_INCONSISTENT in {finding.verdict for finding in timing.settle([slow], RULES)[1]}


def test_gangs_that_forge_at_different_sizes_gain_at_neither():
    def gang(number: int, *, forged_at: str) -> list[SizeRecord]:
        return [
            msgspec.structs.replace(
                forged(series(candidate_us=1000.0, gang=number, seed=number), blocks=12, calls=4)
                if size == forged_at
                else series(candidate_us=1000.0, gang=number, seed=number),
                size=size,
            )
            for size in ("base", "large")
        ]

    found, _ = timing.settle([*gang(1, forged_at="base"), *gang(2, forged_at="large")], RULES)
    assert found.score == pytest.approx(0.2, rel=0.02)


def test_a_report_agrees_with_its_own_record_after_json():
    for records in ([series()], [series(), series(gang=2, seed=3)], [series(floor_us=150.0)]):
        report = EvaluationReport.from_json(report_of(*records).to_json())
        found = recompute(report)
        assert found.agrees, found.differences
        assert found.verdict is report.verdict


def test_a_changed_report_no_longer_agrees():
    honest = report_of(series())
    timed = honest.timing
    better = msgspec.structs.replace(timed, high=9.0, score=9.0)
    assert any("score" in text for text in recompute(msgspec.structs.replace(honest, timing=better)).differences)
    lenient = msgspec.structs.replace(honest, record=Record(rules=RULES, sizes=(series(late_us=30.0),)))
    assert any("TIMING_INCONSISTENT" in text for text in recompute(lenient).differences)
    without = msgspec.structs.replace(honest, record=None)
    assert recompute(without).differences == ("the report has no record of its calls",)
    torn = msgspec.structs.replace(honest, record=Record(rules=RULES, sizes=(torn_record(),)))
    assert "incomplete" in recompute(torn).differences[0]


def torn_record() -> SizeRecord:
    whole = series()
    return msgspec.structs.replace(whole, calls=whole.calls[:-1])


def test_the_command_says_whether_a_report_agrees(tmp_path, capsys):
    honest = report_of(series())
    raised = msgspec.structs.replace(honest.timing, high=9.0, score=9.0)
    for text, status, words in (
        (honest.to_json(), 0, "ranked by"),
        (msgspec.structs.replace(honest, timing=raised).to_json(), 1, "DIFFERS  score"),
        ("{}", 2, "no report of this judge"),
    ):
        path = tmp_path / "report.json"
        path.write_text(text)
        assert cli.main(["recompute", str(path)]) == status
        shown = capsys.readouterr()
        assert words in shown.out + shown.err
    assert cli.main(["recompute", str(tmp_path / "none.json")]) == 2
