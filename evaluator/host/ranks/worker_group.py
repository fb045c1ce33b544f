"""The host's side of the ranks of one submission, from their start to their end."""

import time
from collections.abc import Callable
from pathlib import Path

from evaluator.contract import SourceBundle
from evaluator.host.building.builder import Built
from evaluator.host.hangs.incidents import GroupTrouble, Observation, RanksLost
from evaluator.host.process.spawner import Spawner
from evaluator.host.ranks.answer_collector import AnswerCollector
from evaluator.host.ranks.channel import Channel
from evaluator.host.ranks.conversation import Conversation
from evaluator.host.ranks.observer import Observer
from evaluator.host.ranks.rank_commands import RankCommands
from evaluator.host.ranks.rank_sandbox import RankSandbox
from evaluator.host.ranks.slot_plan import SlotPlan
from evaluator.host.ranks.worker import Worker


class WorkerGroup:
    """The sandbox ranks of one submission; used once, then ended. Not thread-safe.

    Attributes:
        started_at: when, on the monotonic clock.
        commands: what its ranks do, once they are ready.
    """

    def __init__(self, plan: SlotPlan, *, spawner: Spawner, work_dir: Path) -> None:
        """Start the sandbox; in the background it does everything that needs no GPU. Raises EvaluatorError."""
        self.started_at = time.monotonic()
        self._plan = plan
        self._has_ranks = False
        self._is_ready = False
        self._sandbox = RankSandbox(plan, spawner=spawner, work_dir=work_dir)
        self._workers = [
            Worker(number=number, channel=Channel(ends.channel), status_page=ends.status_page)
            for number, ends in enumerate(self._sandbox.ends)
        ]
        self._conversation = Conversation(
            self._workers,
            self._sandbox.exits,
            have_ended=self._has_ended,
            launcher_text=lambda: self._sandbox.launcher_text,
            grace_s=plan.settings.grace_s,
        )
        self._observer = Observer(
            self._workers,
            keepers=self._sandbox.logs.keepers,
            source=self._sandbox.source,
            have_ended=self._has_ended,
            gpus=plan.gpus,
        )
        self._collector = AnswerCollector(
            plan,
            workers=self._workers,
            conversation=self._conversation,
            observer=self._observer,
            sandbox=self._sandbox,
        )
        self.commands = RankCommands(
            plan,
            workers=self._workers,
            conversation=self._conversation,
            collector=self._collector,
            clock_page=self._sandbox.clock_page,
        )

    # ---- from start to end ------------------------------------------------------------------------------------

    def start_ranks(self) -> None:
        """Let the ranks start, which uses the GPUs. In the background, and only once."""
        if not self._has_ranks:
            self._sandbox.fork_ranks()
            self._has_ranks = True

    def wait_until_ready(
        self, *, within: Callable[[float], float] = lambda seconds: seconds, cancelled: Callable[[], bool]
    ) -> None:
        """Return once every rank has joined the process group.

        Args:
            within: shortens how long they may take.
            cancelled: asked often.

        Raises:
            RanksLost: a rank did not join, or has ended since; no submission was involved.
        """
        if not self._is_ready:
            self._join(within=within, cancelled=cancelled)
        # A rank may have joined and ended before the host reads that it joined.
        if not self.is_alive:
            said = self._sandbox.launcher_text
            raise RanksLost(f"a sandbox rank ended before it had a submission. {said}")

    def _join(self, *, within: Callable[[float], float], cancelled: Callable[[], bool]) -> None:
        """Let the ranks start, and wait until all have joined; raises EvaluatorError."""
        self.start_ranks()
        try:
            self._collector.collect("starting", seconds=within(self._plan.settings.start_s), cancelled=cancelled)
        except GroupTrouble as trouble:
            texts = [text for seen in trouble.observations for text in (seen.error, seen.log) if text]
            said = self._sandbox.launcher_text
            raise RanksLost(f"the sandbox ranks did not start: {trouble} {said} {texts}") from trouble
        if (pid := self._workers[0].pid) is not None:
            self._sandbox.processes.hold_namespace(pid)
        self._is_ready = True

    def reveal(self, bundle: SourceBundle, *, built: Built | None = None) -> None:
        """Put the submission and its built modules where the ranks can read them; the folder was empty before."""
        self._sandbox.reveal(bundle, built=built)

    def stop(self) -> None:
        """Let all processes of the group end, and do not wait for that: `close` must follow."""
        self._sandbox.processes.stop()

    def close(self, *, within: Callable[[float], float] = lambda seconds: seconds) -> None:
        """Kill all processes of the group, check that none is left, and free the host's resources.

        Args:
            within: shortens how long they may take to end.

        Raises:
            EvaluatorError: a process of the group is left.
        """
        try:
            self._sandbox.processes.kill(within=within)
        finally:
            self._conversation.close()
            self._sandbox.close()

    # ---- its state --------------------------------------------------------------------------------------------

    @property
    def folder(self) -> str:
        """The name of this group's private folder in the work directory."""
        return self._sandbox.folder

    @property
    def processes(self) -> list[int]:
        """All descendants of the sandbox's first process; complete while no submission is in it."""
        return self._sandbox.processes.descendants()

    def count_processes(self) -> int:
        """How many processes the sandbox has now."""
        return len(self._sandbox.processes.members())

    def busy_ns(self) -> int:
        """Processor time that everything in the sandbox has used so far (see `SandboxProcesses.busy_ns`)."""
        return self._sandbox.processes.busy_ns()

    @property
    def is_alive(self) -> bool:
        """Whether the sandbox still runs, with every rank."""
        self._conversation.hear_exits()
        return not self._has_ended() and not any(
            worker.status is not None or worker.channel.has_hung_up for worker in self._workers
        )

    @property
    def has_ranks(self) -> bool:
        """Whether its ranks were allowed to start."""
        return self._has_ranks

    @property
    def is_ready(self) -> bool:
        """Whether its ranks have joined their process group."""
        return self._is_ready

    def _has_ended(self) -> bool:
        return self._sandbox.processes.have_ended

    def observe_finished(self) -> tuple[Observation, ...]:
        """Every rank's state after a series in which all calls were answered."""
        return self._observer.observe_finished()
