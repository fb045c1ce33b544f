"""Runs and attempts as tests need them; each uses the real actions."""

import json
from datetime import timedelta

from django.utils import timezone

from portal.accounts import organisations
from portal.runs import actions, uploads
from portal.runs.models import Attempt, Run
from portal.submissions import actions as submissions
from portal.submissions.models import Evaluation, State
from problems import registry
from tests.portal.factories import SOLUTION, delivery_of


def make_run(user, **declaration) -> Run:
    wanted = {"model": "writer", "version": "1", "mode": "single_shot", "profile": "cpux2"} | declaration
    return actions.create_run(user, actions.RunDeclaration(**wanted))


def join(organisation, user, *, by, role: str = "member") -> None:
    """Invite somebody, who accepts."""
    organisations.accept(organisations.invite(organisation, username=user.username, role=role, by=by), by=user)


def line(problem: str = "allreduce", sample: int = 0, step: int = 0, **changes) -> dict:
    """An attempt as JSON; its source is unlike any other's."""
    parameters = ", ".join(registry.get(problem).parameter_names)
    source = f"def solution({parameters}):\n    return {sample}, {step}\n"
    if problem == "allreduce":
        source = f"{SOLUTION}\n# {sample} {step}\n"
    return {"problem": problem, "sample": sample, "step": step, "source": source} | changes


def lines(*data: dict) -> bytes:
    return b"".join(json.dumps(entry).encode() + b"\n" for entry in data)


def add(run: Run, *data: dict) -> actions.BulkResult:
    parsed = (uploads.Line(number=n, key="", attempt=uploads.attempt_from(d)) for n, d in enumerate(data, start=1))
    return actions.add_lines(run, parsed, by=run.created_by)


def end(attempt: Attempt, node, *, seconds: float = 2.0, **report) -> None:
    """Let a node deliver the report on an attempt (arguments as of `report_on`), `seconds` after it took the work."""
    attempt.refresh_from_db()
    evaluation = attempt.evaluation
    now = timezone.now()
    Evaluation.objects.filter(pk=evaluation.pk).update(
        state=State.RUNNING, lease=f"lease of {attempt.pk}", node=node, slot_index=0, started_at=now
    )
    finish = now + timedelta(seconds=seconds)
    assert submissions.record_delivery(delivery_of(evaluation, node=node.name, **report), finish)
    attempt.refresh_from_db()
