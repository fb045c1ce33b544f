"""Afterwards: compares the database with the callers' records and the prepared outcomes, and audits it."""

import json
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass

from evaluator.contract import SourceBundle, Verdict
from tests.stack import ROOT
from tools.chaos.lies import FORGED_LOW
from tools.chaos.load import CallerLog
from tools.chaos.prepared import Outcome, outcome_of
from tools.chaos.site import ChaosSite

_ROWS = """
SELECT s.id::text, s.is_attempt, s.idempotency_key, src.bundle::text, e.state, e.verdict, e.score_low, e.attempt,
       e.mode, coalesce(a.run_id::text, ''), coalesce(a.key, '')
FROM submissions_submission s
JOIN submissions_source src ON src.id = s.source_id
LEFT JOIN submissions_evaluation e ON e.submission_id = s.id
LEFT JOIN runs_attempt a ON a.submission_id = s.id
"""
UNFINISHED = "SELECT count(*) FROM submissions_evaluation WHERE state NOT IN ('finished', 'cancelled', 'unserved')"


@dataclass(frozen=True)
class Row:
    """One submission with its evaluation, as the database holds them at the end."""

    submission: str
    is_attempt: bool
    key: str | None
    bundle: str
    state: str
    verdict: str
    low: float | None
    attempt: int
    mode: str
    run: str
    attempt_key: str


@dataclass(frozen=True, kw_only=True)
class Reconciliation:
    """What was found: wrong things in words, and how everything ended."""

    wrong: tuple[str, ...]
    ended: Counter[str]
    tries: Counter[int]


def reconcile(site: ChaosSite, caller_log: CallerLog) -> Reconciliation:
    """Compare the database with the callers' records; it only reads."""
    rows = [Row(*values) for values in site.rows(_ROWS)]  # type: ignore[arg-type]
    wrong = [
        *caller_log.wrong,
        *_against_the_log(rows, caller_log),
        *_against_the_outcomes(rows, caller_log),
        *_audited(site),
    ]
    return Reconciliation(
        wrong=tuple(wrong),
        ended=Counter(row.verdict or row.state for row in rows),
        tries=Counter(row.attempt for row in rows),
    )


def _against_the_log(rows: list[Row], caller_log: CallerLog) -> list[str]:
    """Everything accepted is there, once, and nothing else is."""
    held = Counter(row.submission for row in rows)
    wrong = [f"{pk} has {count} evaluations" for pk, count in held.items() if count != 1]
    people = {row.key: row.submission for row in rows if not row.is_attempt}
    wrong += [f"{pk} was accepted and is lost" for pk in caller_log.submissions.values() if pk not in held]
    wrong += [f"key {key} was never answered and is there" for key in people.keys() - caller_log.submissions.keys()]
    there = {(row.run, row.attempt_key) for row in rows if row.is_attempt}
    return wrong + [f"attempt {key} of run {run} is lost" for run, key in caller_log.attempts.keys() - there]


def _against_the_outcomes(rows: list[Row], caller_log: CallerLog) -> list[str]:
    """Everything has ended as its source says, or was cancelled by its author, or was lost three times."""
    return [f"{row.submission}: {fault}" for row in rows if (fault := _fault(row, caller_log))]


def _fault(row: Row, caller_log: CallerLog) -> str:
    asked = outcome_of(SourceBundle.from_json(row.bundle))
    if row.low is not None and row.low >= FORGED_LOW:
        return "a forged report was believed"
    if row.submission in caller_log.cancelled and row.state != "cancelled":
        return f"the cancellation was confirmed, and it is {row.state}"
    if row.state == "cancelled":
        return "" if row.submission in caller_log.cancel_asked else "it was cancelled, and nobody asked"
    if row.state != "finished":
        return f"it has not ended: {row.state}"
    return "" if _is_as_asked(row, asked) else f"{row.verdict}, {row.low} in try {row.attempt} for {asked}"


def _is_as_asked(row: Row, asked: Outcome) -> bool:
    if row.verdict == Verdict.JUDGE_FAILURE:
        return row.attempt == 3
    low = asked.low if asked.verdict is Verdict.PASSED and row.mode != "check" else None
    return row.verdict == asked.verdict and row.low == low


def _audited(site: ChaosSite) -> list[str]:
    """The operator's own audit."""
    done = subprocess.run(
        [sys.executable, "manage.py", "audit", "--json"],
        cwd=ROOT,
        env=site.stack.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if not done.stdout.startswith("{"):
        return [f"the audit failed: {done.stderr[-500:]}"]
    return [f"audit: {name}: {', '.join(rows[:5])}" for name, rows in json.loads(done.stdout).items() if rows]


def tracebacks(site: ChaosSite) -> Counter[str]:
    """The last lines of tracebacks in the logs of the site's processes and nodes, and how often."""
    found: Counter[str] = Counter()
    for path in site.stack.data_dir.glob("*.log"):
        for text in re.findall(r"^Traceback.*?^(\w[^\n]*)", path.read_text(errors="replace"), re.MULTILINE | re.DOTALL):
            found[f"{path.stem.split('-')[0].rstrip('12')}: {text[:140]}"] += 1
    return found
