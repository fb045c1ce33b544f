"""ParallelKernelBench in Inspect: `inspect eval pkb/parallel_kernel_bench -T profile=cpux2`.

Task, scorer, metrics, and two solvers: one that revises, one with a tool that judges. Inspect finds them by the entry
point of the package.
"""

import threading
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from logging import getLogger
from typing import Any

from inspect_ai import Task, task
from inspect_ai._util.error import PrerequisiteError
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessageUser
from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, Value, metric, scorer
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.tool import ToolDef

from .agent import FASTER, REVISE
from .chat import source_in
from .errors import PkbError
from .estimates import estimate
from .grading import Graded, Judge, graded_answer, in_thread, judge_of
from .prompt_sets import EVERY, chosen, rows_of

_logger = getLogger(__name__)
_EARLIER = "pkb"
"""Where a sample's store holds the answers that a solver had judged."""
_NOT_ANSWERED = {"NO_PROGRAM": "invalid_response_format"}


@task
def parallel_kernel_bench(  # noqa: PLR0917 - Inspect passes -T by name
    profile: str = "cpux2",
    backend: str = "pytorch",
    split: str = EVERY,
    problems: str | list[str] | None = None,
    dataset: str | None = None,
    prompt_version: str | None = None,
    mode: str = "ranked",
    site: str | None = None,
    judge: str | None = None,
    k: int = 1,
    **judging: Any,
) -> Task:
    """The problems of a split, judged on a profile.

    Args:
        profile: hardware and world size, such as h200x8-nomc.
        backend: what the model is asked to write.
        split: an entry of the taxonomy, or all.
        problems: only these of it.
        dataset: a file that `pkb prompts` wrote; without it the prompts come from the site.
        prompt_version: of the site's prompts; without it the task without hints.
        mode: check (correct or not), benchmark or ranked (also the speedup).
        site: its address; without it that of `pkb login` or PKB_SITE.
        judge: a checkout whose judge is used instead of the site's.
        k: samples per problem for correct@k; each is an epoch.
        judging: `run`, `reports`, `series`, `unsandboxed` and `at_once` of `pkb.grading.judge_of`.
    """
    try:
        rows = rows_of(dataset, site, profile=profile, backend=backend, version=prompt_version, say=_logger.warning)
        rows = chosen(rows, split=split, problems=problems)
        # Where there is no judge, nothing is asked of the model.
        judge_of(profile=profile, backend=backend, site=site, judge=judge, **judging)
    except PkbError as error:
        raise PrerequisiteError(str(error)) from error  # Inspect shows the sentence alone
    samples = [
        Sample(
            id=row.problem,
            input=row.text,
            target="PASSED",
            metadata={"revision": row.revision, "prompt_version": row.version, "prompt_digest": row.digest},
        )
        for row in rows
    ]
    if judging.get("run") and mode != "ranked":
        raise PrerequisiteError(f"A run counts what is ranked, not mode {mode}: leave mode out, or leave run out.")
    ks = sorted({1, k})
    timed = [fast_at(p=p, k=number) for p in (1.0, 2.0) for number in ks] if mode != "check" else []
    return Task(
        dataset=MemoryDataset(samples, name=f"pkb-{split}-{profile}"),
        scorer=verdict(profile=profile, backend=backend, mode=mode, site=site, judge=judge, **judging),
        metrics=[*(correct_at(k=number) for number in ks), *timed, hacks()],
        epochs=k,
    )


@scorer(metrics=[])
def verdict(profile: str = "cpux2", backend: str = "pytorch", mode: str = "ranked", **judging: Any) -> Scorer:
    """The judge's verdict and the speedup over the reference; an answer that nobody could judge stays unscored.

    `inspect score LOG --scorer pkb/verdict` judges what stayed so, without asking the model again.
    """
    ask = _judge(profile=profile, backend=backend, **judging)

    async def score(state: TaskState, target: Target) -> Score:  # noqa: ARG001 - Inspect's signature
        answer = state.output.completion
        source = f"```python\n{source_in(answer)}\n```" if source_in(answer) else answer[:1000]
        try:
            graded = await in_thread(partial(_judged, ask, state, answer, mode))
        except PkbError as error:
            _logger.warning("%s: not judged, and not counted: %s", state.sample_id, error)
            return Score.unscored(reason="scoring_failed", answer=source, explanation=str(error))
        return Score(
            value={"correct": float(graded.has_passed), "speedup": graded.score},
            answer=source,
            explanation=_explanation(graded),
            reason=_NOT_ANSWERED.get(graded.verdict) if answer.strip() else "no_response",
            metadata={name: getattr(graded, name) for name in (*graded.__struct_fields__, "is_hack")},
        )

    return score


def _judge(**wishes: Any) -> Callable[[], Judge]:
    """The judge, made when it is first needed: a scorer is also built to read a log."""
    made: list[Judge] = []
    making = threading.Lock()

    def get() -> Judge:
        with making:
            if not made:
                made.append(judge_of(say=_logger.warning, **wishes))
            return made[0]

    return get


def _judged(ask: Callable[[], Judge], state: TaskState, answer: str, mode: str) -> Graded:
    """The verdict on an answer after those that a solver had judged: for a run it is the next step."""
    asked = next((message.text for message in reversed(state.messages) if message.role == "user"), "")
    before: list[str] = state.store.get(_EARLIER, [])
    wishes: dict[str, Any] = {"mode": mode, "sample": state.epoch - 1, "earlier": before, "asked": asked}
    return graded_answer(ask(), str(state.sample_id), answer, **wishes)


async def _step(ask: Callable[[], Judge], state: TaskState, answer: str, mode: str) -> Graded:
    """The verdict on what is not yet the sample's last program."""
    graded = await in_thread(partial(_judged, ask, state, answer, mode))
    state.store.set(_EARLIER, [*state.store.get(_EARLIER, []), answer])
    return graded


def _explanation(graded: Graded) -> str:
    where = graded.report or "none: no judge was needed"
    link = f"[{where}]({where})" if where.startswith("http") else where  # its viewer links to no file
    return f"```\n{graded.diagnosis}\n```\n\nReport: {link}"


def _outcomes(scores: list[SampleScore], is_won: Callable[[dict[str, Any]], bool]) -> dict[str, list[bool]]:
    found: dict[str, list[bool]] = defaultdict(list)
    for sample in scores:
        found[str(sample.sample_id)].append(is_won(sample.score.metadata or {}))
    return found


def _shown(name: str, scores: list[SampleScore], k: int, is_won: Callable[[dict[str, Any]], bool]) -> Value:
    figure = estimate(_outcomes(scores, is_won), k=k)
    return {name: figure.value, f"{name} low": figure.low, f"{name} high": figure.high}


@metric(scores="unreduced")
def correct_at(k: int = 1) -> Metric:
    """correct@k, unbiased, with its 95 % interval over problems."""

    def figure(scores: list[SampleScore]) -> Value:
        return _shown(f"correct@{k}", scores, k, lambda found: found.get("verdict") == "PASSED")

    return figure


@metric(scores="unreduced")
def fast_at(p: float = 1.0, k: int = 1) -> Metric:
    """fast_p@k: correct, and the whole interval of the speedup above p; with its 95 % interval over problems."""

    def figure(scores: list[SampleScore]) -> Value:
        return _shown(
            f"fast_{p:g}@{k}", scores, k, lambda found: found.get("verdict") == "PASSED" and (found["low"] or 0.0) > p
        )

    return figure


@metric(scores="unreduced")
def hacks() -> Metric:
    """How many programs cheated or broke a written rule."""

    def figure(scores: list[SampleScore]) -> Value:
        return sum(bool((sample.score.metadata or {}).get("is_hack")) for sample in scores)

    return figure


@solver
def revise(
    profile: str = "cpux2", backend: str = "pytorch", mode: str = "check", steps: int = 20, **judging: Any
) -> Solver:
    """Ask, show the diagnosis and ask again: up to `steps` answers; in mode check until one passes."""
    ask = _judge(profile=profile, backend=backend, **judging)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        for step in range(steps):
            state = await generate(state)
            graded = await _step(ask, state, state.output.completion, mode)
            if state.completed or step + 1 == steps or (graded.has_passed and mode == "check"):
                break
            words = FASTER if graded.has_passed else REVISE
            state.messages.append(ChatMessageUser(content=words.format(diagnosis=graded.diagnosis)))
        return state

    return solve


@solver
def use_judge(profile: str = "cpux2", backend: str = "pytorch", messages: int = 60, **judging: Any) -> Solver:
    """Give the model a tool that judges, and let it work until it stops calling it; its last message is the answer."""
    ask = _judge(profile=profile, backend=backend, **judging)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        async def check(source: str, timed: bool = False) -> str:  # noqa: FBT001, FBT002 - the model's own call
            """Judge a program on the benchmark's hardware and read the diagnosis.

            Args:
                source: The whole text of solution.py.
                timed: Whether to also time it against the reference, which takes longer.
            """
            mode = "benchmark" if timed else "check"
            return (await _step(ask, state, f"```python\n{source}\n```", mode)).diagnosis

        state.tools = [*state.tools, ToolDef(check).as_tool()]
        state.message_limit = state.message_limit or messages
        return await generate(state, tool_calls="loop")

    return solve
