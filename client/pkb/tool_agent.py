"""One sample by a model with tools: it reads and writes files, and has its program checked, benchmarked and swept.

The files are in this process. The model gets no shell: what it writes runs where every submission runs, in the judge's
sandbox. Everything said is noted before the next thing happens, and the files follow from it. So a sample that was
interrupted goes on with the next turn.
"""

import re
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from .agent import MOST_REPEATS, Judge, NotJudged, Plan, Step, Task, Verdict, best
from .chat import Answer, ToolCall, Usage, source_in
from .generation_log import Turned
from .packing import ENTRY

NOTES = "notes.md"
MOST_VALUES = 8
"""Of one sweep."""
MOST_TURNS_PER_STEP = 30
"""Turns of the model for each step that its budget has, so that reading alone comes to an end."""
_WRITABLE = (ENTRY, NOTES)
_FENCE = "`" * 8
_INTRODUCTION = f"""
You work with tools, so you do not answer with a block. {ENTRY} is your program. The fastest version that passed counts.
Use check until it is correct, then benchmark and sweep to make it faster. Keep what you learn in {NOTES}.
You have {{steps}} judgements in all; every value of a sweep is one. Stop calling tools when you are satisfied."""


def _tool(name: str, description: str, /, **parameters: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "properties": parameters, "required": [*parameters]}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


_TEXT = {"type": "string"}
TOOLS = (
    _tool("read", "The text of a file.", path=_TEXT),
    _tool("write", f"Replace the text of a file: {' or '.join(_WRITABLE)}.", path=_TEXT, text=_TEXT),
    _tool("check", f"Build and verify {ENTRY}; the judge's diagnosis."),
    _tool("benchmark", f"Verify {ENTRY} and time it against the reference; the judge's diagnosis."),
    _tool(
        "sweep",
        f"Benchmark {ENTRY} for several values of one constant, written NAME = value at its top level. "
        "The fastest correct value stays in the file.",
        name=_TEXT,
        values={"type": "array", "items": {}, "maxItems": MOST_VALUES},
    ),
)


class _Arguments(msgspec.Struct):
    path: str = ""
    text: str = ""
    name: str = ""
    values: list[Any] = []


class Talker(Protocol):
    """A model that can be given tools."""

    def turn(self, messages: Sequence[Any], tools: Sequence[Any]) -> tuple[Answer, dict[str, Any]]:
        """The next turn, read, and as the protocol has it."""
        ...


class _Refused(Exception):
    """A call of a tool that cannot be carried out; the text is for the model."""


class _Sample:
    """What is known of the sample, all of it from what was said: messages, files, judgements and what they took."""

    def __init__(self, task: Task, prompt: str, plan: Plan, files: dict[str, str], judge: Judge) -> None:
        self.task, self.plan, self.judge = task, plan, judge
        asked = prompt + _INTRODUCTION.format(steps=plan.steps) + f"\nFiles: {', '.join([*files, NOTES])}.\n"
        self.messages: list[dict[str, Any]] = [{"role": "user", "content": asked}]
        self.files = {**files, NOTES: ""}
        self.steps: list[Step] = []
        self.usage, self.seconds, self.cost_usd = Usage(), 0.0, 0.0
        self._since = Turned(task=task, messages=[])
        self._said: list[str] = []
        self.failure: NotJudged | None = None

    def hear(self, turned: Turned) -> None:
        """Take in what was said or done, now or before an interruption."""
        self.messages += turned.messages
        self.files |= turned.written
        self.usage, self.seconds = _sum(self.usage, turned.usage), self.seconds + turned.seconds
        self.cost_usd += turned.cost_usd
        self._since = msgspec.structs.replace(
            self._since, usage=_sum(self._since.usage, turned.usage), seconds=self._since.seconds + turned.model_s
        )
        if turned.steps:
            self.steps += turned.steps
            self._since, self._said = Turned(task=self.task, messages=[]), []
        self._said += [msgspec.json.encode(message).decode() for message in turned.messages]

    @property
    def waiting(self) -> list[ToolCall]:
        """The calls of the model's last turn that have no result yet."""
        done = {message.get("tool_call_id") for message in self.messages if message["role"] == "tool"}
        said = [message for message in self.messages if message["role"] == "assistant"]
        calls = msgspec.convert((said[-1].get("tool_calls") or []) if said else [], list[ToolCall])
        return [call for call in calls if call.id not in done]

    @property
    def why_over(self) -> str:
        """Why the model gets no further turn; empty while it does."""
        plan, turns = self.plan, sum(message["role"] == "assistant" for message in self.messages)
        last = self.messages[-1]
        limits = {
            "satisfied": last["role"] == "assistant" and not last.get("tool_calls"),
            "steps": self.known >= plan.steps or turns >= plan.steps * MOST_TURNS_PER_STEP,
            "tokens": plan.tokens is not None and self.usage.tokens_in + self.usage.tokens_out >= plan.tokens,
            "seconds": plan.seconds is not None and self.seconds >= plan.seconds,
            "cost": plan.usd is not None and self.cost_usd >= plan.usd,
        }
        return next((name for name, is_met in limits.items() if is_met), "")

    @property
    def known(self) -> int:
        """Judgements that count: failures of the judge cost none."""
        return sum(step.is_known for step in self.steps)

    def answer(self, source: str, extra: Sequence[Step] = ()) -> Answer:
        """A program with all that led to it since the last one, as a step of the trajectory."""
        since = Turned(task=self.task, messages=[]) if extra else self._since
        said = "" if extra else "\n".join(self._said)
        text = f"{said}\n{_FENCE}python\n{source}\n{_FENCE}\n"
        return Answer(text=text, finish_reason="stop", usage=since.usage, seconds=since.seconds)

    def run(self, call: ToolCall) -> Turned:
        """Carry out a call of the model; what it was wrong about is told to it."""
        written: dict[str, str] = {}
        steps: list[Step] = []
        started = time.monotonic()
        try:
            arguments = msgspec.json.decode(call.function.arguments or "{}", type=_Arguments)
            result = self._carried_out(call.function.name, arguments, written, steps)
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            result = f"The arguments of {call.function.name} cannot be read: {error}."
        except _Refused as refused:
            result = str(refused)
        except NotJudged as failure:  # the call has no result: a later call of the command carries it out again
            self.failure, result = failure, ""
        message = {"role": "tool", "tool_call_id": call.id, "content": result}
        messages = [] if self.failure else [message]
        spent = time.monotonic() - started
        return Turned(task=self.task, messages=messages, written=written, steps=steps, seconds=spent)

    def _carried_out(self, tool: str, asked: _Arguments, written: dict[str, str], steps: list[Step]) -> str:
        if tool == "read" and asked.path in self.files:
            return self.files[asked.path]
        if tool == "write" and asked.path in _WRITABLE:
            written[asked.path] = asked.text
            return f"{asked.path} has {len(asked.text.splitlines())} lines now."
        if tool in {"read", "write"}:
            raise _Refused(f"There is no {asked.path!r} to {tool}. Files: {', '.join(self.files)}.")
        if tool in {"check", "benchmark", "sweep"} and self.known >= self.plan.steps:
            raise _Refused("No judgement is left.")
        if tool in {"check", "benchmark"}:
            return self._judged(self.files[ENTRY], tool, steps).diagnosis
        if tool == "sweep":
            return self._swept(asked, written, steps)
        raise _Refused(f"There is no tool {tool!r}.")

    def _judged(self, source: str, mode: str, steps: list[Step]) -> Verdict:
        """The verdict on a program, added to `steps`; it is submitted again while the judge fails."""
        before = len(steps)
        while True:
            number = len(self.steps) + len(steps)
            answer = self.answer(source, steps)
            asked = str(self.messages[0]["content"])
            is_new = len(steps) == before
            if source_in(answer.text):
                verdict = self.judge.judged(self.task, number, answer, asked=asked, mode=mode, is_new=is_new)
            else:
                self.judge.count(self.task, number, answer, asked=asked, mode=mode)
                verdict = Verdict(verdict="NO_PROGRAM", diagnosis=f"NO_PROGRAM\n{ENTRY} defines no solution(...).")
            steps.append(Step(answer=answer, verdict=verdict, is_repeat=not is_new))
            if verdict.is_of_the_program:
                return verdict
            if len(steps) - before > MOST_REPEATS:
                raise NotJudged(f"The judge failed {len(steps) - before} times in a row: {verdict.diagnosis}")

    def _swept(self, asked: _Arguments, written: dict[str, str], steps: list[Step]) -> str:
        source, line = self.files[ENTRY], re.compile(rf"^{re.escape(asked.name)}[ \t]*=[^=\n].*$", re.MULTILINE)
        if not asked.name.isidentifier() or len(line.findall(source)) != 1:
            raise _Refused(f"{ENTRY} has no single line {asked.name} = ... at its top level.")
        if not 0 < len(asked.values) <= MOST_VALUES:
            raise _Refused(f"Give 1 to {MOST_VALUES} values, not {len(asked.values)}.")
        left = self.plan.steps - self.known
        texts, tried = [], []
        for value in asked.values[:left]:
            text = f"{asked.name} = {value!r}"
            program = line.sub(lambda _, text=text: text, source)  # type: ignore[misc]
            verdict = self._judged(program, "benchmark", steps)
            tried.append(Step(answer=self.answer(program, steps), verdict=verdict))
            texts.append(f"{text}: {verdict.diagnosis.splitlines()[0]}")
        passed = [number for number, step in enumerate(tried) if step.verdict and step.verdict.has_passed]
        if passed:
            chosen = best(tried)
            written[ENTRY] = tried[chosen].source
            texts.append(f"{ENTRY} has {texts[chosen].partition(':')[0]} now.")
        if len(asked.values) > left:
            texts.append(f"{len(asked.values) - left} values were not tried: no judgement is left.")
        return "\n".join(texts)


def work(
    task: Task,
    *,
    prompt: str,
    files: dict[str, str],
    plan: Plan,
    turns: Sequence[Turned],
    model: Talker,
    judge: Judge,
    note: Callable[[Turned], None],
    cost_of: Callable[[Usage], float],
) -> int:
    """Carry a sample to its end, after the `turns` of an earlier call; returns the number of the step that was ranked.

    It ends when the model calls no tool any more, or when steps, tokens, seconds or cost of the plan are used up.

    Raises:
        NotJudged: the judge failed repeatedly.
    """
    sample = _Sample(task, prompt, plan, files, judge)
    for turned in turns:
        sample.hear(turned)
    while sample.waiting or not sample.why_over:
        if sample.waiting:
            turned = sample.run(sample.waiting[0])
        else:
            answer, message = model.turn(sample.messages, TOOLS)
            turned = Turned(
                task=task,
                messages=[message],
                usage=answer.usage,
                cost_usd=cost_of(answer.usage),
                seconds=answer.seconds,
                model_s=answer.seconds,
            )
        note(turned)
        sample.hear(turned)
        if sample.failure:
            raise sample.failure
    judged = [step for step in sample.steps if step.is_known]
    # The starter is no program of the model.
    written = sample.files[ENTRY] if sample.files[ENTRY] != files[ENTRY] else ""
    source = judged[best(judged)].source if judged else written
    ended = {"role": "system", "content": f"ended: {sample.why_over}"}
    sample.hear(Turned(task=task, messages=[ended]))
    asked = str(sample.messages[0]["content"])
    judge.rank(task, len(sample.steps), sample.answer(source), asked=asked, is_new=True)
    return len(sample.steps)


def _sum(one: Usage, other: Usage) -> Usage:
    return Usage(**{name: getattr(one, name) + getattr(other, name) for name in Usage.__struct_fields__})
