"""How one sample of one problem is made: ask, submit, read the diagnosis, revise, submit the best in mode ranked."""

from collections.abc import Iterator, Sequence
from typing import Protocol

import msgspec

from .chat import Answer, Message, source_in
from .diagnosis import shortened
from .errors import PkbError
from .outcomes import RETRIED

ROUNDS_KEPT = 4
"""Earlier answers that a model sees again, so that twenty steps fit into its context."""
MOST_REPEATS = 3
"""How often in a row a program that the judge could not judge is submitted again."""
MOST_TRAJECTORY_BYTES = 60_000
_NO_PROGRAM = (
    "NO_PROGRAM\nYour answer holds no fenced block of Python that defines solution(...).\n"
    "Next: answer with the whole file in one block between ```python and ```."
)
_CUT_OFF = "\nYour answer was cut off at its limit of tokens: think and write less."
REVISE = (
    "The judge ran your program. This is what it says:\n\n{diagnosis}\n\n"
    "Find the cause, then answer with the whole corrected file in one block between ```python and ```."
)
FASTER = (
    "The judge ran your program and accepted it:\n\n{diagnosis}\n\n"
    "Make it faster and keep it correct. Answer with the whole file in one block between ```python and ```."
)


class Task(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """One sample of one problem."""

    problem: str
    sample: int


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The judge's verdict on a program, with the diagnosis."""

    verdict: str
    diagnosis: str
    score_low: float | None = None

    @property
    def has_passed(self) -> bool:
        """Whether it was accepted."""
        return self.verdict == "PASSED"

    @property
    def is_of_the_program(self) -> bool:
        """Whether the program is responsible for it, and not the judge or a cancellation."""
        return self.verdict not in RETRIED


class NotJudged(PkbError):
    """The judge failed repeatedly; the journal has the steps so far."""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One answer of the model and what became of it; `verdict` is None until it was judged.

    `is_repeat` if the answer is the previous one, submitted again because the judge had failed.
    """

    answer: Answer
    verdict: Verdict | None = None
    is_repeat: bool = False

    @property
    def source(self) -> str:
        """The program in the answer."""
        return source_in(self.answer.text)

    @property
    def is_known(self) -> bool:
        """Whether the judge has a verdict on the program: only then it counts and is shown to the model."""
        return self.verdict is not None and self.verdict.is_of_the_program


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How a sample is made.

    Attributes:
        steps: most answers of the model that are judged; 1 is a single shot.
        step_mode: `check` stops at the first program that passes; `benchmark` has every program timed and goes on
            asking for a faster one.
        has_tools: whether the model has tools, and chooses itself what is checked and what is timed.
        tokens, seconds, usd: how much of each a sample with tools may take; None for as much as it takes.
    """

    steps: int
    step_mode: str = "check"
    has_tools: bool = False
    tokens: int | None = None
    seconds: float | None = None
    usd: float | None = None

    @property
    def is_agentic(self) -> bool:
        """Whether the model sees what the judge says."""
        return self.steps > 1


class Judge(Protocol):
    """Where programs are judged."""

    def judged(self, task: Task, step: int, answer: Answer, *, asked: str, mode: str, is_new: bool) -> Verdict:
        """Submit the program of an answer as this step and wait for the verdict; `is_new` unless it is a repeat."""
        ...

    def rank(self, task: Task, step: int, answer: Answer, *, asked: str, is_new: bool) -> None:
        """Submit the program of an answer as the one that counts; `is_new` unless an earlier step was the same."""
        ...

    def count(self, task: Task, step: int, answer: Answer, *, asked: str, mode: str) -> None:
        """Have an answer without a program counted as this step: it took tokens, money and time all the same."""
        ...


class Notes(Protocol):
    """What is remembered of a sample between two calls of the command."""

    def answered(self, task: Task, step: int, answer: Answer) -> None:
        """The model has answered."""
        ...

    def repeated(self, task: Task, step: int) -> None:
        """The answer of the step before is submitted again."""
        ...

    def judged(self, task: Task, step: int, verdict: Verdict) -> None:
        """The judge has given its verdict."""
        ...


class Model(Protocol):
    """What can be asked."""

    def ask(self, messages: Sequence[Message]) -> Answer:
        """The next turn."""
        ...


def solve(task: Task, *, prompt: str, plan: Plan, steps: list[Step], model: Model, judge: Judge, notes: Notes) -> int:
    """Carry a sample to its end; returns the number of the step that was ranked.

    `steps` are those of an earlier call, and it goes on after them. Every step is noted before the next begins. A
    failure of the judge costs the model no step: the same program is submitted again.

    Raises:
        NotJudged: the judge failed more than `MOST_REPEATS` times in a row.
    """
    steps = list(steps)
    failures = 0
    while not _is_over(steps, plan):
        number = len(steps)
        if steps and steps[-1].verdict is None:
            number -= 1
        elif steps and not steps[-1].is_known:
            notes.repeated(task, number)
            steps.append(Step(answer=steps[-1].answer, is_repeat=True))
        else:
            answer = model.ask(conversation(prompt, steps))
            notes.answered(task, number, answer)
            steps.append(Step(answer=answer))
        if not plan.is_agentic:
            break
        verdict = _verdict(judge, task, number, steps, prompt=prompt, mode=plan.step_mode)
        notes.judged(task, number, verdict)
        steps[number] = msgspec.structs.replace(steps[number], verdict=verdict)
        failures = 0 if verdict.is_of_the_program else failures + 1
        if failures > MOST_REPEATS:
            raise NotJudged(f"The judge failed {failures} times in a row; it last said: {verdict.diagnosis}")
    chosen = best(steps)
    asked = conversation(prompt, steps[:chosen])[-1].content
    ranked_step = len(steps) if plan.is_agentic else 0
    judge.rank(task, ranked_step, steps[chosen].answer, asked=asked, is_new=not plan.is_agentic)
    return ranked_step


def _is_over(steps: Sequence[Step], plan: Plan) -> bool:
    if not plan.is_agentic:
        return bool(steps)
    last = steps[-1] if steps else None
    if last is None or not last.is_known:
        return False
    has_stopped = last.verdict is not None and last.verdict.has_passed and plan.step_mode == "check"
    return has_stopped or sum(step.is_known for step in steps) >= plan.steps


def _verdict(judge: Judge, task: Task, number: int, steps: Sequence[Step], *, prompt: str, mode: str) -> Verdict:
    """The judge's verdict of the last step; an answer without a program is counted and needs no judge."""
    step = steps[number]
    asked = conversation(prompt, steps[:number])[-1].content
    if not step.source:
        judge.count(task, number, step.answer, asked=asked, mode=mode)
        cut_off = _CUT_OFF if step.answer.finish_reason == "length" else ""
        return Verdict(verdict="NO_PROGRAM", diagnosis=_NO_PROGRAM + cut_off)
    return judge.judged(task, number, step.answer, asked=asked, mode=mode, is_new=not step.is_repeat)


def best(steps: Sequence[Step]) -> int:
    """The number of the step to rank: the fastest that passed, the earliest of equals, else the last with a program."""
    passed = [number for number, step in enumerate(steps) if step.verdict and step.verdict.has_passed]
    if passed:
        return max(passed, key=lambda number: (_speed(steps[number]), -number))
    with_program = [number for number, step in enumerate(steps) if step.source]
    return with_program[-1] if with_program else len(steps) - 1


def _speed(step: Step) -> float:
    return step.verdict.score_low or 0.0 if step.verdict else 0.0


def conversation(prompt: str, steps: Sequence[Step]) -> list[Message]:
    """What the model is asked next: the task, its latest answers, and the judge's verdict on each."""
    return [Message("user", prompt), *_rounds([step for step in steps if step.is_known][-ROUNDS_KEPT:])]


def _rounds(steps: Sequence[Step]) -> Iterator[Message]:
    for step in steps:
        assert step.verdict is not None  # known, or it would not be shown
        words = FASTER if step.verdict.has_passed else REVISE
        yield Message("assistant", step.answer.text)
        yield Message("user", words.format(diagnosis=step.verdict.diagnosis))


def trajectory(asked: str, answer: Answer) -> str:
    """What was asked and answered at a step, short enough for the site to keep."""
    text = f"# Asked\n\n{shortened(asked, 20_000)}\n\n# Answered\n\n{answer.text}\n"
    while len(text.encode()) > MOST_TRAJECTORY_BYTES:
        text = shortened(text, len(text) * MOST_TRAJECTORY_BYTES // len(text.encode()) - 200)
    return text
