"""ParallelKernelBench in verifiers: a taskset, an environment of one or several turns, and the chat between them.

Rewards are those of the last program. Nothing that a model writes runs in a runtime of verifiers, and no token gets
there: programs go from this process to the judge, and run in its sandbox.
"""

import asyncio
import threading
from collections.abc import Iterable
from functools import cache, partial
from logging import getLogger
from pathlib import Path
from typing import Any, Literal

import httpx
import verifiers.v1 as vf

from .agent import FASTER, REVISE
from .chat import RETRIED_STATUSES
from .errors import UsageError
from .grading import Graded, Judge, graded_answer, in_thread, judge_of
from .prompt_sets import EVERY, chosen, rows_of
from .transport import backoff_s

_logger = getLogger(__name__)
_GRADED = "pkb"
"""Where the verdicts of a rollout stand in its trace's info."""
_MOST_TRIES = 30
"""Of one question to the model: a quarter of an hour, for the pauses grow to 30 s."""


class KernelTaskConfig(vf.TaskConfig):
    """How programs are judged and rewarded, under `--env.taskset.task.*`."""

    site: str | None = None
    """A site's address; without it that of `pkb login` or PKB_SITE."""
    judge: str | None = None
    """A checkout whose judge is used instead of the site's."""
    reports: str = "pkb-reports"
    """Where that judge's reports are kept."""
    run: str = ""
    """A run of the site (`pkb run create`), whose attempts the last programs become, judged in mode ranked."""
    series: str = ""
    """The same program is judged once in a series."""
    unsandboxed: bool = False
    """Whether that judge may run programs where no sandbox is possible."""
    at_once: int = 1
    """Programs at a time on that judge."""
    reward: Literal["staged", "flat"] = "staged"
    """staged: a part each for a program that builds, runs and is correct; flat: 1 for a correct one."""
    roofline: bool = False
    """Whether the share of the roofline is a further stage; costs a timed judgement (mode benchmark)."""


class KernelsConfig(vf.TasksetConfig):
    """Which problems, under `--env.taskset.*`."""

    task: KernelTaskConfig = KernelTaskConfig()
    profile: str = "cpux2"
    """Hardware and world size."""
    backend: str = "pytorch"
    """What the model is asked to write."""
    split: str = EVERY
    """An entry of the taxonomy, or all."""
    problems: list[str] = []
    """Only these of it."""
    dataset: Path | None = None
    """A file that `pkb prompts` wrote; without it the prompts come from the site."""
    prompt_version: str | None = None
    """Of the site's prompts; without it the task without hints."""


class KernelData(vf.TaskData):
    """A problem as data."""

    problem: str
    profile: str
    backend: str
    revision: str
    prompt_digest: str


class KernelTask(vf.Task[KernelData, vf.State, KernelTaskConfig]):
    """One problem: the model's last program is judged and rewarded."""

    @property
    def key(self) -> str:
        """Problem, backend and profile: the index in a split may change."""
        return f"{self.data.problem}/{self.data.backend}/{self.data.profile}"

    async def graded(self, trace: vf.Trace[Any, Any, Any], *, is_last: bool = True) -> Graded:
        """The verdict on the trace's last answer; every answer is judged once, and for a run the last one ranked.

        Raises:
            PkbError: nobody could judge it. verifiers records it as an error of the task, and a resumed run repeats it.
        """
        known = trace.info.setdefault(_GRADED, [])
        number = len(trace.assistant_messages)
        config = self.config
        mode = "ranked" if config.run and is_last else "benchmark" if config.roofline else "check"
        if not known or (known[-1]["turn"], known[-1]["mode"]) != (number, mode):
            # Made in a thread: it asks the site for the run.
            wishes = (getattr(config, name) for name in _JUDGING)
            ask = await in_thread(partial(_one_judge, self.data.profile, self.data.backend, *wishes))
            said = [message.content or "" for message in trace.assistant_messages]
            asked = next((one.content for one in reversed(trace.messages) if one.role == "user"), "")
            what = {"mode": mode, "sample": trace.id, "earlier": [said[one["turn"] - 1] for one in known]}
            what["asked"] = str(asked)
            found = await in_thread(partial(graded_answer, ask, self.data.problem, trace.last_reply, **what))
            if config.roofline and found.has_passed and found.roofline is None:
                raise UsageError(f"{self.data.profile} has no roofline: leave roofline out, or choose a GPU profile.")
            known.append(
                {"turn": number, "mode": mode, **{name: getattr(found, name) for name in found.__struct_fields__}}
            )
        return Graded(**{name: value for name, value in known[-1].items() if name not in {"turn", "mode"}})

    @vf.reward
    async def reward(self, trace: vf.Trace[Any, Any, Any]) -> dict[str, float]:
        """The parts of the reward, together 1: flat is one part."""
        graded = await self.graded(trace)
        if self.config.reward == "flat":
            return {"correct": float(graded.has_passed)}
        parts = {"builds": 0.1 * graded.builds, "runs": 0.2 * graded.runs, "correct": 0.7 * graded.has_passed}
        if self.config.roofline:
            parts = {name: part / 2 for name, part in parts.items()}
            parts["roofline"] = 0.5 * min(1.0, graded.roofline or 0.0) * graded.has_passed
        # A program that cheats gets nothing, also not for running.
        return dict.fromkeys(parts, 0.0) if graded.is_hack else parts

    @vf.metric(priority=-1)
    async def judging(self, trace: vf.Trace[Any, Any, Any]) -> dict[str, float]:
        """Whether it cheated, the judge's seconds over all turns, and the speedup where it was timed."""
        graded = await self.graded(trace)
        found = {"reward_hack": float(graded.is_hack), "judge_s": sum(one["judge_s"] for one in trace.info[_GRADED])}
        return found | ({"speedup": graded.score} if graded.score is not None else {})


_JUDGING = ("run", "site", "judge", "reports", "series", "unsandboxed", "at_once")


_making = threading.Lock()


def _one_judge(profile: str, backend: str, *wishes: Any) -> Judge:
    """One judge for all rollouts, so that they share its slots, and the numbers of a run's samples."""
    with _making:
        return _judge(profile, backend, *wishes)


@cache
def _judge(profile: str, backend: str, *wishes: Any) -> Judge:
    chosen_by = dict(zip(_JUDGING, wishes, strict=True))
    return judge_of(profile=profile, backend=backend, say=_logger.warning, **chosen_by)


class Kernels(vf.Taskset[KernelTask, KernelsConfig]):
    """The problems of a split on a profile."""

    def load(self) -> Iterable[KernelTask]:
        """A task per problem; raises UsageError for a split, problem, profile, file or judge that is none."""
        config = self.config
        where = {"profile": config.profile, "backend": config.backend}
        rows = rows_of(config.dataset, config.task.site, version=config.prompt_version, say=_logger.warning, **where)
        # Where there is no judge, nothing is asked of the model.
        _one_judge(*where.values(), *(getattr(config.task, name) for name in _JUDGING))
        for row in chosen(rows, split=config.split, problems=config.problems):
            data = KernelData(
                id=row.problem,
                name=row.problem,
                prompt=row.text,
                problem=row.problem,
                profile=row.profile,
                backend=row.backend,
                revision=row.revision,
                prompt_digest=row.digest,
            )
            yield KernelTask(data, config.task)


class Chat(vf.Harness[vf.HarnessConfig]):
    """A conversation in this process: no program, no tools, nothing to install in a runtime."""

    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_RESUME = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(  # noqa: PLR0917
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace[Any, Any, Any],  # noqa: ARG002 - verifiers' signature
        runtime: vf.Runtime,  # noqa: ARG002
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],  # noqa: ARG002
        data: vf.TaskData,
    ) -> vf.ProgramResult:
        """Ask, and again after a rate limit or while the endpoint is away: nothing between here and there does."""
        system, prompt = self.resolve_prompt(data)
        asked = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else []
        asked = asked or [message.model_dump(mode="json", exclude_none=True) for message in prompt or []]
        messages = [*([{"role": "system", "content": system}] if system else []), *asked]
        headers, body = {"Authorization": f"Bearer {secret}"}, {"model": ctx.model, "messages": messages}
        async with httpx.AsyncClient(timeout=None) as http:  # noqa: S113 - the rollout has its own deadline
            for tries in range(1, _MOST_TRIES + 1):
                answer = await http.post(f"{endpoint}/chat/completions", json=body, headers=headers)
                if answer.status_code not in {*RETRIED_STATUSES, 429} or tries == _MOST_TRIES:
                    break
                _logger.warning("the model's endpoint answered %d; trying again", answer.status_code)
                await asyncio.sleep(backoff_s(tries))
        return vf.ProgramResult(
            exit_code=int(answer.is_error), stdout="", stderr=answer.text if answer.is_error else ""
        )


class KernelEnvConfig(vf.EnvConfig):
    """How often the model may answer, under `--env.*`."""

    agent: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())
    turns: int = 1
    """Most answers; from 2 on the model reads the diagnosis and answers again."""


class KernelEnv(vf.Env[KernelEnvConfig]):
    """One answer, or several with the judge's diagnosis between them until a program passes.

    With the stage roofline, a program that passed is followed by the request for a faster one.
    """

    async def run(self, task: vf.Task[Any, Any, Any], agents: vf.Agents) -> None:
        """One episode; the last program is the one that is rewarded."""
        assert isinstance(task, KernelTask)
        async with agents.agent.interaction(task) as chat:
            segment = await chat.turn()
            for _ in range(self.config.turns - 1):
                if segment.terminated:
                    break
                graded = await task.graded(chat.trace, is_last=False)
                if graded.has_passed and not task.config.roofline:
                    break
                words = FASTER if graded.has_passed else REVISE
                segment = await chat.turn(words.format(diagnosis=graded.diagnosis))
