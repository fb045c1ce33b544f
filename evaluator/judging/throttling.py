"""GPUs that heat or a lack of power slowed. Only what was slow before the submission ran sends an evaluation back.

Later it may be the submission's own heat. If that sent an evaluation back, a submission could win another try. There
both sides of a block run on the same clocks, and an alarm names the GPU.
"""

from collections.abc import Sequence

from evaluator.contract import Finding, GpuReading, SizeRecord, TimingRules, Verdict

_HELD_BACK = frozenset({"hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown"})
"""Reasons for low clocks beyond the normal ones: a software power cap is normal."""


def before_the_submission(readings: Sequence[GpuReading], rules: TimingRules) -> Finding | None:
    """The finding that sends an evaluation back: a GPU was slowed while no rank could read the submission."""
    for reading in readings:
        if rules.judges_throttling and reading.precedes_submission and reasons(reading):
            message = f"{_sentence(reading)} before the submission ran, so it was not run"
            return Finding(verdict=Verdict.BASELINE_UNSTABLE, message=message)
    return None


def alarms(sizes: Sequence[SizeRecord], rules: TimingRules) -> tuple[str, ...]:
    """One sentence for every size, worker group and GPU that was slowed while the submission was there."""
    found: dict[tuple[str, int, int], str] = {}
    for size in sizes if rules.judges_throttling else ():
        for reading in size.gpus:
            if not reading.precedes_submission and reasons(reading):
                when = f"in {reading.moment}" if reading.is_of_phase else f"{reading.moment} the timed calls"
                sentence = f"{size.size}, worker group {size.group_number}: {_sentence(reading)}, {when}"
                found.setdefault((size.size, size.group_number, reading.gpu), sentence)
    return tuple(found.values())


def reasons(reading: GpuReading) -> list[str]:
    """The driver's reasons that are not normal."""
    return sorted(_HELD_BACK & set(reading.throttled_by))


def _sentence(reading: GpuReading) -> str:
    return (
        f"GPU {reading.gpu} was slowed ({', '.join(reasons(reading))}: {reading.sm_mhz} MHz, {reading.celsius} C, "
        f"{reading.watts:.0f} W)"
    )
