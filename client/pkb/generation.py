"""A model over many problems: tasks to threads, every step into a journal, attempts into a run."""

import contextlib
import queue
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from .agent import Judge, Task, Verdict, solve
from .chat import Answer, ChatModel, Message
from .client import Client
from .errors import PkbError, UsageError
from .generation_log import Event, Log, Prompted, Ranked, RunMade, Settings, Turned
from .journal import Journal
from .results import Run
from .runs import NewRun
from .tool_agent import work


class Listener(Protocol):
    """Receives the progress of a generation."""

    def judged(self, task: Task, step: int, verdict: Verdict) -> None:
        """A step was judged."""
        ...

    def ended(self, task: Task, error: PkbError | None) -> None:
        """The sample is done, or failed."""
        ...


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The result of a generation."""

    run: str | None
    page: str | None
    samples: int
    done: int
    failed: dict[str, str]
    tokens_in: int
    tokens_out: int
    cost_usd: float
    is_over_budget: bool


class OverBudget(PkbError):
    """The budget is spent; the journal has the steps so far."""


class _Metered:
    """The model, as long as there is money."""

    def __init__(self, model: ChatModel, log: Log, budget_usd: float | None) -> None:
        self._model = model
        self._log = log
        self._budget_usd = budget_usd

    def ask(self, messages: Sequence[Message]) -> Answer:
        """The next turn; raises OverBudget."""
        self._check()
        return self._model.ask(messages)

    def _check(self) -> None:
        if self._budget_usd is not None and self._log.cost_usd >= self._budget_usd:
            raise OverBudget(f"{self._log.cost_usd:.2f} of {self._budget_usd:.2f} US dollars are spent.")

    def turn(self, messages: Sequence[Any], tools: Sequence[Any]) -> tuple[Answer, dict[str, Any]]:
        """The next turn of a model with tools; raises OverBudget."""
        self._check()
        return self._model.turn(messages, tools)


def opened(journal: Journal[Event], settings: Settings) -> Settings:
    """The settings of the journal, written into it if it is new.

    Raises:
        UsageError: it was created with others.
    """
    begun = next((entry for entry in journal.entries if isinstance(entry, Settings)), None)
    if begun is None:
        journal.append(settings)
        return settings
    if not begun.is_same_as(settings):
        theirs, ours = msgspec.structs.asdict(begun), msgspec.structs.asdict(settings)
        differing = [
            f"{name} {theirs[name]!r}, not {ours[name]!r}"
            for name in theirs
            if name != "key" and theirs[name] != ours[name]
        ]
        raise UsageError(
            f"{journal.path} was created with {'; '.join(differing)}. Use the same settings, or name another journal."
        )
    return begun


def run_of(site: Client, log: Log, settings: Settings, new: NewRun) -> RunMade | None:
    """The run that attempts go into: the journal's, the one that was named, or a new one; None without."""
    if not settings.is_run:
        return None
    made: RunMade | None = next(log.of_kind(RunMade), None)
    if made is None:
        run = _fitting(site.runs.get(settings.run), new) if settings.run else site.runs.create(new, key=settings.key)
        made = RunMade(run=run.id, page=run.page)
        log.note(made)
    return made


def _fitting(run: Run, new: NewRun) -> Run:
    """A run that was there before, if what will be generated belongs into it; raises UsageError."""
    for name in ("mode", "profile", "backend", "prompt_version"):
        theirs, ours = getattr(run, name), getattr(new, name)
        # A run may have been made without saying which prompt will be used.
        if theirs != ours and (theirs or name != "prompt_version"):
            option = name.replace("_", "-")
            raise UsageError(
                f"Run {run.id} has {option} {theirs}, not {ours}. Use --{option} {theirs}, or another run."
            )
    return run


def prompts_of(site: Client, log: Log, settings: Settings, problems: Iterable[str]) -> dict[str, Prompted]:
    """The prompt of every problem, from the journal or the site."""
    prompts: dict[str, Prompted] = {entry.problem: entry for entry in log.of_kind(Prompted)}
    for slug in problems:
        if slug not in prompts:
            came = site.prompt(
                slug, backend=settings.backend, profile=settings.profile, version=settings.prompt_version
            )
            prompts[slug] = Prompted(problem=slug, version=came.version, text=came.text)
            log.note(prompts[slug])
    return prompts


def generate(
    log: Log,
    *,
    settings: Settings,
    prompts: dict[str, Prompted],
    tasks: list[Task],
    model: ChatModel,
    judge: Judge,
    made: RunMade | None,
    concurrency: int,
    budget_usd: float | None,
    listener: Listener,
    files: Mapping[str, dict[str, str]] | None = None,
) -> Summary:
    """Carry every task to its end, several at once. What fails is left as it is for the next call.

    `files` are those that a model with tools finds, by problem.
    """
    steps, done = log.steps(), log.done()
    metered = _Metered(model, log, budget_usd)
    notes = _Recorder(log, listener)

    def carry(task: Task) -> None:
        prompt, plan, begun = prompts[task.problem].text, settings.plan, steps.get(task, [])
        if plan.has_tools:
            step = work(
                task,
                prompt=prompt,
                files=(files or {})[task.problem],
                plan=plan,
                turns=log.turns(task),
                model=metered,
                judge=judge,
                note=notes.turned,
                cost_of=settings.prices.cost_usd,
            )
        else:
            step = solve(task, prompt=prompt, plan=plan, steps=begun, model=metered, judge=judge, notes=notes)
        log.note(Ranked(task=task, step=step))

    failed: dict[str, PkbError] = {}
    for task, error in _in_threads([task for task in tasks if task not in done], carry, concurrency=concurrency):
        listener.ended(task, error)
        if error is not None:
            failed[f"{task.problem}/{task.sample}"] = error
    over_budget = [name for name, error in failed.items() if isinstance(error, OverBudget)]
    answers = log.usage()
    return Summary(
        run=made.run if made else None,
        page=made.page if made else None,
        samples=len(tasks),
        done=len(log.done() & set(tasks)),
        failed={name: str(error) for name, error in failed.items() if name not in over_budget},
        tokens_in=sum(usage.tokens_in for usage in answers),
        tokens_out=sum(usage.tokens_out for usage in answers),
        cost_usd=log.cost_usd,
        is_over_budget=bool(over_budget),
    )


def _in_threads(
    tasks: list[Task], carry: Callable[[Task], None], *, concurrency: int
) -> Iterator[tuple[Task, PkbError | None]]:
    """Every task as it ends, with what went wrong; an error that is not ours is raised here.

    Threads are daemons, so that Ctrl-C ends the command while a model still thinks: the journal knows what was done.
    """
    waiting: queue.SimpleQueue[Task] = queue.SimpleQueue()
    ended: queue.SimpleQueue[tuple[Task, Exception | None]] = queue.SimpleQueue()
    for task in tasks:
        waiting.put(task)

    def work() -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                task = waiting.get_nowait()
                try:
                    carry(task)
                except Exception as error:  # noqa: BLE001 - carried to the thread that waits for it
                    ended.put((task, error))
                else:
                    ended.put((task, None))

    for _ in range(min(concurrency, len(tasks))):
        threading.Thread(target=work, daemon=True).start()
    for _ in tasks:
        task, error = ended.get()
        if error is not None and not isinstance(error, PkbError):
            raise error
        yield task, error


class _Recorder:
    """Writes every step to the log and reports judged steps to the listener."""

    def __init__(self, log: Log, listener: Listener) -> None:
        self._log = log
        self._listener = listener

    def answered(self, task: Task, step: int, answer: Answer) -> None:
        self._log.answered(task, step, answer)

    def repeated(self, task: Task, step: int) -> None:
        self._log.repeated(task, step)

    def judged(self, task: Task, step: int, verdict: Verdict) -> None:
        self._log.judged(task, step, verdict)
        self._listener.judged(task, step, verdict)

    def turned(self, turned: Turned) -> None:
        self._log.note(turned)
        before = sum(len(entry.steps) for entry in self._log.turns(turned.task)) - len(turned.steps)
        for number, step in enumerate(turned.steps, start=before):
            if step.verdict is not None:
                self._listener.judged(turned.task, number, step.verdict)


def new_key() -> str:
    """A key for what a journal makes on the site."""
    return f"pkb-generate-{uuid.uuid4()}"
