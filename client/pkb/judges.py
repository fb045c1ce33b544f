"""Where a generation has programs judged: as attempts of a run, or as your own submissions."""

from dataclasses import dataclass

import msgspec

from .agent import Task, Verdict, trajectory
from .chat import Answer, Prices, source_in
from .client import Client
from .diagnosis import diagnosis
from .errors import Refused
from .generation_log import Settings
from .runs import NewAttempt


@dataclass(frozen=True, kw_only=True)
class RunJudge:
    """Judges attempts of a run: they count for the model and appear on no person's board."""

    site: Client
    run: str
    prices: Prices

    def judged(self, task: Task, step: int, answer: Answer, *, asked: str, mode: str, is_new: bool) -> Verdict:
        """Add the step as an attempt and wait for its verdict."""
        attempt = self.site.runs.add_attempt(self.run, self._attempt(task, step, answer, asked, mode, is_new=is_new))
        if attempt.submission_id is None:
            said = f"{attempt.verdict}\n{attempt.message}"
            return Verdict(verdict=attempt.verdict or "", diagnosis=said)
        return _waited(self.site, attempt.submission_id)

    def rank(self, task: Task, step: int, answer: Answer, *, asked: str, is_new: bool) -> None:
        """Add the attempt that counts; its verdict is not waited for."""
        self.site.runs.add_attempt(self.run, self._attempt(task, step, answer, asked, "ranked", is_new=is_new))

    def count(self, task: Task, step: int, answer: Answer, *, asked: str, mode: str) -> None:
        """Add the answer as an attempt without a source, which the site ends at once."""
        self.site.runs.add_attempt(self.run, self._attempt(task, step, answer, asked, mode, is_new=True))

    def _attempt(self, task: Task, step: int, answer: Answer, asked: str, mode: str, *, is_new: bool) -> NewAttempt:
        source = source_in(answer.text)
        attempt = NewAttempt(problem=task.problem, sample=task.sample, step=step, mode=mode, source=source)
        if not is_new:
            # Its tokens were counted where it was first an attempt.
            return attempt
        return msgspec.structs.replace(
            attempt,
            tokens_in=answer.usage.tokens_in,
            tokens_out=answer.usage.tokens_out,
            cost_usd=self.prices.cost_usd(answer.usage),
            seconds=round(answer.seconds, 3),
            trajectory=trajectory(asked, answer),
        )


@dataclass(frozen=True, kw_only=True)
class OwnJudge:
    """Judges your own submissions: without a run, for your own standing."""

    site: Client
    settings: Settings

    def judged(self, task: Task, step: int, answer: Answer, *, asked: str, mode: str, is_new: bool) -> Verdict:  # noqa: ARG002
        """Submit the step and wait for its verdict; a source that the site refuses has one without a judge."""
        try:
            return _waited(self.site, self._submit(task, step, answer, mode))
        except Refused as refused:
            verdict = next((error.verdict for error in refused.errors if error.verdict), "")
            if not verdict:
                raise
            return Verdict(verdict=verdict, diagnosis=f"{verdict}\n{refused}")

    def rank(self, task: Task, step: int, answer: Answer, *, asked: str, is_new: bool) -> None:  # noqa: ARG002
        """Submit the program that counts, if there is one."""
        if source_in(answer.text):
            self._submit(task, step, answer, "ranked")

    def count(self, task: Task, step: int, answer: Answer, *, asked: str, mode: str) -> None:
        """Nothing: without a run the journal alone counts."""

    def _submit(self, task: Task, step: int, answer: Answer, mode: str) -> str:
        submission = self.site.submit_text(
            task.problem,
            source_in(answer.text),
            profile=self.settings.profile,
            backend=self.settings.backend,
            mode=mode,
            note=f"{self.settings.model}, sample {task.sample}, step {step}"[:200],
            key=f"{self.settings.key}/{task.problem}/{task.sample}/{step}"[-100:],
        )
        return submission.id


def _waited(site: Client, submission_id: str) -> Verdict:
    evaluation = site.wait(submission_id).evaluation
    return Verdict(
        verdict=evaluation.verdict or evaluation.state.upper(),
        diagnosis=diagnosis(evaluation),
        score_low=evaluation.score_low,
    )
