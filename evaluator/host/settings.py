"""How one slot judges: limits and choices, resolved once and recorded in every report."""

import dataclasses
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from evaluator.judging.checks import NOTHING_OFF, Check

DEFAULT_USERS = (1_900_000_000, 1_900_000_063)
"""The host users of sandboxes: in the range that no distribution, container tool or systemd hands out (1879048192 to
2147483646)."""


class SandboxChoice(StrEnum):
    """What to do about confinement.

    `auto` takes what the machine can do, and fails where it can do nothing unless `allow_unsandboxed`. `require` needs
    every property. `none` uses no sandbox and needs `allow_unsandboxed` too.
    """

    AUTO = "auto"
    REQUIRE = "require"
    NONE = "none"


@dataclass(frozen=True, kw_only=True)
class JudgeSettings:
    """The settings of a slot; durations in seconds, sizes in bytes.

    Attributes:
        profile: the profile this slot judges for.
        work_dir: where the slot keeps its private directories; None for the system's temporary directory.
        allow_unsandboxed: whether the slot may run without a sandbox where none is possible.
        other_user: whether ranks without a sandbox run as the slot's own user, which needs root; else as the judge's.
        warm: whether after an evaluation a worker group is started ahead of the next one.
        starts_ahead: how many worker groups start while another is judged, where nothing is timed; None for as many as
            the machine has room for.
        group_age_s: a waiting worker group is replaced after this long.
        check_calls: calls per size in check mode.
        joined_regimes: at most so many calls at the first size are in several regimes at once, or twice as many as
            there are regimes; beside them there is one in each.
        is_short: a check makes a quarter of those. None of them is large or hides something, a regime in one of them
            has no call of its own, nor have most large ones, and every rank is late once.
        further_regimes: how many such calls are made at every size but the first.
        cross_check: whether what passed is checked on the other number of ranks of the profile's machine,
            where there is one.
        blocks: A B B A blocks per size in a timed mode; None for as many as the interval needs.
        phase_s, min_phase_calls, max_phase_calls: a phase is about this much reference time, within these counts (on a
            practice board within `practice_min_phase_calls` and `practice_max_phase_calls`, to keep verdicts quick).
        series_s: about how long the timed series of all sizes and worker groups may take; `practice_series_s` on a
            practice board, where times are indicative.
        full_checks: the least number of timed calls per size that are compared in full, and at least one in ten (all,
            on a practice board). Fewer, down to `least_checks`, if comparing would take longer than `checks_s`.
        call_limit_s: least deadline of a call; the deadline is `call_limit_factor` times the reference if longer.
        evaluation_s: deadline of a whole evaluation, checked between calls.
        first_call_s: extra time for the first call at each size (graphs, autotuning).
        lazy_build_s: the same where that call may compile, because nothing was compiled ahead.
        reading_s: deadline for reading the source.
        oracle_s: deadline for any single answer of the oracle ranks.
        clean_s: how long processes of an ended sandbox may remain; after that the slot takes no more work.
        memory_bytes, processes, cores: limits of a sandbox as a whole.
        users: the range of host users from which a judge that runs as root takes one for its sandboxes.
        second_group_share: the share of a ranked series that a second worker group repeats; None for the profile's.
        without: checks that are switched off, so that tests can show that they are needed. Never on a real node.
        records_work: whether the links' counters are read around a few calls after the timed ones, and one call is
            recorded.
        stall_s: after so long without an answer the host checks whether CPU ranks wait for each other.
        log_bytes: how much of a rank's output is kept, half from the start and half from the end.
    """

    profile: str
    work_dir: Path | None = None
    sandbox: SandboxChoice = SandboxChoice.AUTO
    allow_unsandboxed: bool = False
    other_user: bool = False
    warm: bool = True
    starts_ahead: int | None = None
    group_age_s: float = 600.0
    check_calls: int = 7
    joined_regimes: int = 20
    is_short: bool = False
    further_regimes: int = 2
    cross_check: bool = False
    blocks: int | None = None
    phase_s: float = 0.02
    min_phase_calls: int = 2
    max_phase_calls: int = 20
    series_s: float = 6.0
    practice_series_s: float = 1.2
    practice_min_phase_calls: int = 3
    practice_max_phase_calls: int = 8
    full_checks: int = 8
    checks_s: float = 0.6
    least_checks: int = 4
    call_limit_s: float = 10.0
    call_limit_factor: float = 20.0
    first_call_s: float = 30.0
    lazy_build_s: float = 120.0
    reading_s: float = 20.0
    import_s: float = 60.0
    start_s: float = 120.0
    evaluation_s: float = 900.0
    oracle_s: float = 300.0
    grace_s: float = 0.5
    stall_s: float = 6.0
    clean_s: float = 30.0
    log_bytes: int = 256 * 1024
    shared_memory_bytes: int = 8 * 1024**3
    temporary_bytes: int = 16 * 1024**3
    file_bytes: int = 8 * 1024**3
    open_files: int = 65536
    memory_bytes: int = 200 * 1024**3
    processes: int = 4096
    cores: int = 32
    users: tuple[int, int] = DEFAULT_USERS
    second_group_share: float | None = None
    records_work: bool = True
    without: frozenset[Check] = NOTHING_OFF

    def as_record(self) -> dict[str, str]:
        """Every setting as text, for a report's environment."""
        known = dataclasses.asdict(self) | {"without": ", ".join(sorted(self.without))}
        return {f"judge.{name}": str(value) for name, value in known.items() if name != "work_dir"}
