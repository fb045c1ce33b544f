"""The entries of a generation's journal, and the state of every sample that follows from them."""

import threading
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import msgspec

from .agent import Plan, Step, Task, Verdict
from .chat import Answer, Prices, Usage
from .journal import Journal


class Settings(msgspec.Struct, frozen=True, kw_only=True, tag="settings", tag_field="event"):
    """What a journal is about; going on with other settings would mix two experiments."""

    site: str
    model: str
    mode: str
    backend: str
    profile: str
    samples: int
    plan: Plan
    prices: Prices
    sampling: dict[str, Any]
    key: str
    run: str | None
    """A run that was there before; None makes one, or none with `is_run` False."""
    is_run: bool = True
    prompt_version: str | None = None
    """Which of the site's prompts is asked for; None is its first, without hints."""

    def is_same_as(self, other: "Settings") -> bool:
        """Whether two calls do the same; the key is made anew each time."""
        return msgspec.structs.replace(self, key="") == msgspec.structs.replace(other, key="")


class RunMade(msgspec.Struct, frozen=True, kw_only=True, tag="run", tag_field="event"):
    """The run that attempts go into."""

    run: str
    page: str


class Prompted(msgspec.Struct, frozen=True, kw_only=True, tag="prompt", tag_field="event"):
    """The prompt of a problem, kept so that a resumed sample goes on with the one it began with."""

    problem: str
    version: str
    text: str


class Answered(msgspec.Struct, frozen=True, kw_only=True, tag="answered", tag_field="event"):
    """The model has answered."""

    task: Task
    step: int
    answer: Answer
    cost_usd: float


class Repeated(msgspec.Struct, frozen=True, kw_only=True, tag="repeated", tag_field="event"):
    """The judge had failed, so the answer of the step before is this step too."""

    task: Task
    step: int


class Judged(msgspec.Struct, frozen=True, kw_only=True, tag="judged", tag_field="event"):
    """The judge has given its verdict on a step."""

    task: Task
    step: int
    verdict: Verdict


class Turned(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="turned", tag_field="event"):
    """A turn of a model with tools, or the result of a tool: messages as the protocol has them.

    Attributes:
        written: the files that it changed, by name.
        steps: the programs that it had judged, with their verdicts.
        usage, cost_usd: of the model.
        seconds, model_s: how long it took, and how much of it was the model.
    """

    task: Task
    messages: list[dict[str, Any]]
    written: dict[str, str] = {}
    steps: list[Step] = []
    usage: Usage = Usage()
    cost_usd: float = 0.0
    seconds: float = 0.0
    model_s: float = 0.0


class Ranked(msgspec.Struct, frozen=True, kw_only=True, tag="ranked", tag_field="event"):
    """A sample is done: its best program was submitted to count, as `step`."""

    task: Task
    step: int


Event = Settings | RunMade | Prompted | Answered | Repeated | Judged | Turned | Ranked


class Log:
    """The journal of a generation, read as what is known of every sample."""

    def __init__(self, journal: Journal[Event], prices: Prices) -> None:
        self._journal = journal
        self._prices = prices
        self._spending = threading.Lock()
        self._spent_usd = sum(entry.cost_usd for entry in journal.entries if isinstance(entry, Answered | Turned))

    def of_kind(self, kind: type[msgspec.Struct]) -> Iterator[Any]:
        """The entries of one kind, in order."""
        return (entry for entry in list(self._journal.entries) if isinstance(entry, kind))

    def note(self, entry: Event) -> None:
        """Remember."""
        self._journal.append(entry)
        if isinstance(entry, Answered | Turned):
            with self._spending:
                self._spent_usd += entry.cost_usd

    def answered(self, task: Task, step: int, answer: Answer) -> None:
        """The model has answered."""
        cost_usd = self._prices.cost_usd(answer.usage)
        self.note(Answered(task=task, step=step, answer=answer, cost_usd=cost_usd))

    def repeated(self, task: Task, step: int) -> None:
        """The answer of the step before is submitted again."""
        self.note(Repeated(task=task, step=step))

    def judged(self, task: Task, step: int, verdict: Verdict) -> None:
        """The judge has given its verdict."""
        self.note(Judged(task=task, step=step, verdict=verdict))

    @property
    def cost_usd(self) -> float:
        """What every answer so far cost."""
        return self._spent_usd

    def done(self) -> set[Task]:
        """Samples that are finished."""
        return {entry.task for entry in self.of_kind(Ranked)}

    def turns(self, task: Task) -> list[Turned]:
        """What was said of a sample with tools."""
        return [entry for entry in self.of_kind(Turned) if entry.task == task]

    def usage(self) -> list[Usage]:
        """The tokens of every answer and turn."""
        answered = [entry.answer.usage for entry in self.of_kind(Answered)]
        return [*answered, *(entry.usage for entry in self.of_kind(Turned))]

    def steps(self) -> dict[Task, list[Step]]:
        """The steps of every sample."""
        steps: dict[Task, list[Step]] = defaultdict(list)
        for entry in list(self._journal.entries):
            match entry:
                case Answered(task=task, answer=answer):
                    steps[task].append(Step(answer=answer))
                case Repeated(task=task):
                    steps[task].append(Step(answer=steps[task][-1].answer, is_repeat=True))
                case Judged(task=task, step=number, verdict=verdict):
                    steps[task][number] = msgspec.structs.replace(steps[task][number], verdict=verdict)
        return steps
