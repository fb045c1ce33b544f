"""Measures the references alone: the data of `problems/data/baselines/<profile>.json`."""

import itertools
import math
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Self

from evaluator.contract import SCORE_RULE, Baseline, BaselineTable, Mode
from evaluator.hardware import profiles
from evaluator.host.clock.call_clock import GateClock
from evaluator.host.machine import facts, gpus
from evaluator.host.measure.references import ReferenceClock
from evaluator.host.process.spawner import Spawner
from evaluator.host.ranks.trusted_ranks import TrustedRanks
from evaluator.host.sandbox.cpu_sets import shares_for
from evaluator.host.settings import JudgeSettings
from evaluator.judging import statistics
from evaluator.judging.floors import floor_of
from evaluator.judging.timing import net_us
from problems import registry
from problems.spec.schema import Problem

_STEADY_CALLS, _STEADY_S = 20, 0.2
_SERIES_S = 0.4
_LEAST_CALLS, _MOST_CALLS = 20, 200
_EMPTY_CALLS = 20


class BaselineRun:
    """Trusted ranks for measuring references; a context manager."""

    def __init__(self, settings: JudgeSettings) -> None:
        """Start the ranks; raises EvaluatorError where the machine lacks the profile's GPUs."""
        self.profile = profiles.get(settings.profile)
        self._settings = settings
        gpus.gpus_for(self.profile)
        self._work_dir = Path(tempfile.mkdtemp(prefix="pkb-baseline-", dir=settings.work_dir))
        self._spawner = Spawner()
        self._clock: GateClock | None = None
        if self.profile.device == "cuda":
            self._clock = GateClock(spawner=self._spawner, cores=shares_for(self.profile).gatekeeper)
        self._trusted = TrustedRanks(
            self.profile, settings, spawner=self._spawner, work_dir=self._work_dir, clock=self._clock
        )
        self._contents = itertools.count()

    def __enter__(self) -> Self:
        self._trusted.wait_until_ready()
        return self

    def __exit__(self, *_: object) -> None:
        self._trusted.close()
        if self._clock is not None:
            self._clock.close()
        self._spawner.close()
        shutil.rmtree(self._work_dir, ignore_errors=True)

    def measure(self, slugs: Sequence[str], *, dtype: str = "bfloat16") -> Iterator[tuple[str, str, Baseline]]:
        """Slug, size and baseline of every problem in `slugs` at the profile's ranked sizes, one after the other.

        A problem that does not run at the profile's world size is left out.
        """
        for slug in slugs:
            problem = registry.get(slug)
            sizes = self.profile.sizes[Mode.RANKED]
            if problem.refuses(self.profile.world_size, sizes) is None:
                for size in sizes:
                    yield slug, size, self._measure_size(problem, size, dtype)

    def _measure_size(self, problem: Problem, size: str, dtype: str) -> Baseline:
        opened = self._trusted.open_size(problem=problem.slug, size=size, dtype=dtype, key=secrets.token_bytes(32))
        clock = ReferenceClock(self._trusted, opened, self._contents)
        opening = clock.open(calls=_STEADY_CALLS, seconds=_STEADY_S)
        wanted = math.ceil(_SERIES_S / opening.call_s)
        empty_us = median(clock.empty().longest_ns for _ in range(_EMPTY_CALLS)) / 1000
        taken = [clock.time().time for _ in range(max(_LEAST_CALLS, min(_MOST_CALLS, wanted)))]
        rules = self.profile.timing_rules()
        calls = [[net_us(done, empty_us=empty_us, rules=rules) for done in call.done_ns] for call in taken]
        times_us = [max(call) for call in calls]
        summary, interval = statistics.summarise(times_us), statistics.median_interval(times_us)
        floor = floor_of(problem, opened.dims, self.profile, dtype=dtype)
        return Baseline(
            revision=registry.revision(problem.slug),
            dims=opened.dims,
            dtype=dtype,
            calls=len(calls),
            median_us=summary.median_us,
            low_us=interval.low,
            high_us=interval.high,
            p10_us=summary.p10_us,
            p90_us=summary.p90_us,
            rank_medians_us=tuple(median(ranks) for ranks in zip(*calls, strict=True)),
            floor_us=None if floor is None else floor.us,
            bound=None if floor is None else floor.bound.value,
            utilisation=None if floor is None else floor.us / summary.median_us,
        )


def table(profile: str, baselines: dict[str, dict[str, Baseline]]) -> BaselineTable:
    """The measured baselines with this machine's versions and the time."""
    return BaselineTable(
        profile=profile,
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
        environment=facts.environment(),
        baselines=baselines,
        rule=SCORE_RULE,
    )
