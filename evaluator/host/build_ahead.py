"""Compiles evaluations before a slot is free, apart from the processors, users and folders of judging.

The slots of a node share the cache of builds. A slot that finds a build there compiles nothing.
"""

import logging
import math
import os
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from evaluator.contract import (
    MOST_BUILDERS,
    EvaluationReport,
    EvaluationRequest,
    Stage,
    StageTime,
    request_fields,
)
from evaluator.errors import Cancelled, EvaluatorError
from evaluator.hardware import profiles
from evaluator.hardware.profiles import Profile
from evaluator.host.building.builder import Builder
from evaluator.host.building.builder_process import BuildLimits
from evaluator.host.building.what_to_build import is_needed
from evaluator.host.machine import backends
from evaluator.host.process.deadlines import Deadlines
from evaluator.host.sandbox import cgroups, doctor
from evaluator.host.sandbox.cpu_sets import shares_for
from evaluator.host.sandbox.slot_claims import SlotUser, WorkDirectory
from evaluator.host.settings import JudgeSettings
from evaluator.judging import source_rules, verdicts

logger = logging.getLogger(__name__)

_PROCESSORS_EACH = 2
"""The steps for host and device run at the same time; the rest of a build takes one."""


def builders_here(profile: Profile) -> int:
    """How many evaluations this machine can compile during judging; 0 where that would disturb timed ranks.

    A build runs its author's code. Only control groups keep it off the processors of timed ranks. Where ranks share a
    GPU nothing is timed.
    """
    processors = _processors(profile)
    is_harmless = profile.shares_gpu or "cpuset" in cgroups.find().folders
    return min(MOST_BUILDERS, len(processors) // _PROCESSORS_EACH) if profile.is_on_gpus and is_harmless else 0


def _processors(profile: Profile) -> tuple[int, ...]:
    """Those on which submissions may be compiled during judging."""
    if profile.shares_gpu:
        return tuple(sorted(os.sched_getaffinity(0)))
    return shares_for(profile).builders


class BuildAhead:
    """The builders of a node for one profile; several threads may build at once.

    `close` removes its files, except the cache.
    """

    def __init__(self, settings: JudgeSettings) -> None:
        """Examine how this machine can confine a build.

        Raises EvaluatorError where it cannot confine one, and the settings require it.
        """
        self._profile = profiles.get(settings.profile)
        self._work_directory = WorkDirectory(settings.work_dir)
        # Its own user: processes of a slot's user after an evaluation count as leftovers of it.
        self._user = SlotUser.take(settings.users)
        limits = BuildLimits(processors=_processors(self._profile))
        self._builder = Builder(settings, limits=limits)
        try:
            self._confinement = doctor.resolve_in(
                self._work_directory.path, profile=self._profile, settings=settings, user=self._user
            )
        except BaseException:
            self.close()
            raise

    def build(
        self, request: EvaluationRequest, *, cancelled: Callable[[], bool] = lambda: False
    ) -> EvaluationReport | None:
        """Compile what a slot will need. Returns the report where the build decides the verdict, else None.

        Raises:
            Cancelled: `cancelled()` became true.
            EvaluatorError: this node could not build; a slot will fail in the same way.
        """
        # The slot reports what this node lacks for a backend.
        if not is_needed(request) or backends.missing(
            request.source, backend=request.backend, node=backends.Node.this()
        ):
            return None
        started_at, began, deadlines = _now(), time.monotonic(), Deadlines(math.inf, cancelled)
        with tempfile.TemporaryDirectory(prefix="ahead-", dir=self._work_directory.path) as name:
            built = self._builder.build(request, workdir=Path(name), sandbox=self._confinement, deadlines=deadlines)
        found = (*built.findings, *source_rules.check_machine_code(built.primitives, profile=self._profile))
        decided = verdicts.decide_before_ranks(found)
        if decided is None:
            return None
        return EvaluationReport(
            **request_fields(request, world_size=self._profile.world_size, dtype=request.input_dtype),
            verdict=decided.verdict,
            message=decided.message,
            findings=found,
            stages=(StageTime(stage=Stage.BUILDING, seconds=time.monotonic() - began),),
            build=built.result,
            notes=built.notes,
            primitives=built.primitives,
            sandbox=self._confinement.level,
            earlier=request.earlier,
            started_at=started_at,
            finished_at=_now(),
        )

    def close(self) -> None:
        """Remove the private folder and release the user; running builds end by their own `cancelled`."""
        self._work_directory.close()
        if self._user is not None:
            self._user.close()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class Builders:
    """Compiles up to `number` evaluations at once; each is started by the thread that calls `build`.

    Where the machine cannot confine a build none is offered, and the slots compile for themselves.
    """

    def __init__(self, number: int, *, make: Callable[[], BuildAhead]) -> None:
        self.number = number
        self._make = make
        self._ahead: BuildAhead | None = None

    @property
    def offered(self) -> int:
        """How many builds the site may send at once; 0 until `prepare` has succeeded."""
        return self.number if self._ahead is not None else 0

    def prepare(self) -> None:
        """Find out how a build is confined here."""
        if self.number == 0 or self._ahead is not None:
            return
        try:
            self._ahead = self._make()
        except (EvaluatorError, OSError):
            logger.exception("nothing is compiled ahead of a slot on this node")

    def build(self, request: EvaluationRequest, *, cancelled: Callable[[], bool]) -> EvaluationReport | None:
        """Compile. Returns the report where the build decides the verdict, None where a slot continues.

        An error of the judge is left to the slot, which compiles again and reports it. Raises Cancelled.
        """
        if self._ahead is None:
            return None
        try:
            return self._ahead.build(request, cancelled=cancelled)
        except Cancelled:
            raise
        except Exception:
            # The slot will meet the same error, and decides what it means.
            logger.exception("evaluation %s could not be compiled ahead", request.evaluation_id)
            return None

    def close(self) -> None:
        """Remove the builders' files, except the cache."""
        if self._ahead is not None:
            self._ahead.close()
