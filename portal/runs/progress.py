"""What an agent had reached by each step, and what that had cost."""

from dataclasses import dataclass

from evaluator.contract import SCORE_RULE, Verdict, is_faster
from portal.runs.figures import geometric_mean
from portal.runs.models import Run
from problems import registry


@dataclass(frozen=True, kw_only=True)
class Progress:
    """What a run had reached by a step, with each problem's best program till then.

    `solved` counts problems with an attempt that passed in any mode, `faster` those of them with one that was timed and
    is faster than the reference (`evaluator.contract.is_faster`), ranked or not.
    `speedup_solved` is the geometric mean over the solved problems whose programs were timed, as on the boards.
    `speedup_all` is that over all problems of the benchmark. There one without a faster program counts as 1: its user
    keeps the reference. Both are None until a program was timed. Speedups are by the current rule. `cost_usd` is what
    all attempts so far had cost.
    """

    step: int
    solved: int
    faster: int
    speedup_solved: float | None
    speedup_all: float | None
    attempts: int
    cost_usd: float | None


def progress(run: Run) -> list[Progress]:
    """An agentic run step by step; checks count as passing attempts, since they are what the agent saw."""
    rows = list(
        run.attempts.order_by("step").values_list(
            "step", "problem", "verdict", "score", "score_low", "cost_usd", "evaluation__score_rule"
        )
    )
    problems = len(registry.problems())
    solved: set[str] = set()
    best: dict[str, float] = {}
    faster: set[str] = set()
    cost, has_cost = 0.0, False
    by_step: dict[int, Progress] = {}
    for count, (step, problem, verdict, score, low, spent, rule) in enumerate(rows, start=1):
        if verdict == Verdict.PASSED:
            solved.add(problem)
            if score is not None and score > 0 and rule == SCORE_RULE:
                best[problem] = max(score, best.get(problem, score))
                if is_faster(low):
                    faster.add(problem)
        if spent is not None:
            cost, has_cost = cost + spent, True
        over_all = [max(1.0, value) for value in best.values()] + [1.0] * (problems - len(best))
        by_step[step] = Progress(
            step=step,
            solved=len(solved),
            faster=len(faster),
            speedup_solved=geometric_mean(list(best.values())),
            speedup_all=geometric_mean(over_all) if best else None,
            attempts=count,
            cost_usd=cost if has_cost else None,
        )
    return list(by_step.values())
