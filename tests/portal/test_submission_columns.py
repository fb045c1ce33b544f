"""Every column of a submission and of its evaluations is in form, API, export, own data and deletion, or says why not.

Whoever adds a column meets one failure for each place that lacks it, and adds it there or a reason here.
"""

import io
import json
import zipfile
from datetime import UTC, date, datetime
from functools import cache

import pytest
from django.core.cache import cache as limits
from django.db import models
from django.test import Client

from portal.exports.tables import TABLES
from portal.privacy.actions import archive_of
from portal.submissions.forms import SubmissionForm
from portal.submissions.models import Evaluation, Submission
from tests.portal.pages import scenes
from tests.portal.pages.conftest import alice, local  # noqa: F401 - fixtures

pytestmark = pytest.mark.django_db

SITES_OWN = "id author created_at is_attempt opened_by published_by requested_visibility"
QUEUE = (
    "losses priority payer turn unable_since lease slot_index lease_expires_at deadline_at "
    "stage stage_detail stage_fraction stage_since"
)
BY_REQUEST = "id submission state attempt queued_at started_at finished_at problem_revision queued_because request_id"
OUTCOME = (
    "node verdict message score score_low score_high score_rule other_speedups primitives points has_alarms "
    "recorded_on recorded_where"
)

REASONS = {
    (Submission, "form"): {
        "the site sets it": SITES_OWN,
        "the page is a problem's": "problem",
        "made of the hidden field `key`": "idempotency_key",
    },
    (Submission, "API request"): {
        "the site sets it": SITES_OWN,
        "the header Idempotency-Key": "idempotency_key",
    },
    (Submission, "API answer"): {
        "as `source_digest`": "source",
        "the caller's own, from the header": "idempotency_key",
        "attempts are answered by their run": "is_attempt",
        "of no use to a caller: `visibility` is what holds": "requested_visibility opened_by published_by",
    },
    (Submission, "export"): {
        "as `submission`": "id",
        "as `source_digest`": "source",
        "as `run`": "is_attempt",
        "every row is of a public submission or a published run": (
            "visibility requested_visibility opened_by published_by"
        ),
        "the author's alone": "note idempotency_key",
        "as `queued_at` of the evaluation": "created_at",
    },
    (Submission, "own data"): {
        "the archive is one author's": "author",
        "the folder `sources`": "source",
        "of no use to a person: `visibility` is what holds": "requested_visibility opened_by published_by",
        "the caller's own name for a request, or a digest of a form": "idempotency_key",
    },
    (Submission, "deletion"): {
        "nothing that a person wrote: the row records the GPU time": "id author problem backend is_attempt created_at",
        "private submissions alone are emptied": "visibility requested_visibility",
        "who published the source elsewhere, which stays published": "opened_by published_by",
    },
    (Evaluation, "form"): {
        "the site sets it": f"{BY_REQUEST} {QUEUE}",
        "the judge finds it": OUTCOME,
    },
    (Evaluation, "API request"): {
        "the site sets it": f"{BY_REQUEST} {QUEUE}",
        "the judge finds it": OUTCOME,
    },
    (Evaluation, "API answer"): {
        "the answer that it stands in": "submission",
        "in `queue`": "unable_since",
        "in `stage`": "stage_detail stage_fraction stage_since",
        "in `report`": "primitives has_alarms other_speedups",
        "the queue's own": "losses priority payer turn lease slot_index lease_expires_at deadline_at",
        "for pages and logs of the site": "queued_because request_id",
    },
    (Evaluation, "export"): {
        "as `evaluation`": "id",
        "every row has ended": "state",
        "as `paths`": "primitives",
        "the queue's own": QUEUE,
        "the last try is what counts": "attempt",
        "mode profile times nothing": "size",
        "for operators": "has_alarms request_id",
        "of times in the report": "other_speedups",
        "nothing ranks a sweep": "points",
        "for the page": "queued_because recorded_where",
    },
    (Evaluation, "own data"): {
        "as `submission_id`": "submission",
        "the queue's own": f"{QUEUE} attempt",
        "in the report of the folder `reports`": "primitives has_alarms node score_rule other_speedups size",
        "about the site and its operators, not the person": "node_owner queued_because recorded_where request_id",
    },
    (Evaluation, "deletion"): {
        "nothing that a person wrote: the row records the GPU time": (
            "id submission problem_revision profile mode size state priority payer turn attempt queued_at unable_since "
            "started_at finished_at losses lease node slot_index lease_expires_at deadline_at node_owner"
        ),
        "a name of a stage, or its share and moment": "stage stage_fraction stage_since",
        "what the judge found": (
            "verdict score score_low score_high score_rule other_speedups has_alarms recorded_on recorded_where"
        ),
        "an operator's words": "queued_because",
        "a random number": "request_id",
    },
}
SAMPLES = {
    models.CharField: "theirs",
    models.TextField: "theirs",
    models.JSONField: ["theirs"],
    models.BooleanField: True,
    models.IntegerField: 7,
    models.FloatField: 0.7,
    models.DateTimeField: datetime(2026, 1, 1, tzinfo=UTC),
    models.DateField: date(2026, 1, 1),
}


def fields(model: type[models.Model]) -> tuple[models.Field, ...]:
    return model._meta.concrete_fields  # noqa: SLF001 - where Django documents a model's fields


def columns(model: type[models.Model]) -> set[str]:
    return {field.name for field in fields(model)}


def excused(model: type[models.Model], place: str) -> set[str]:
    return {name for names in REASONS[model, place].values() for name in names.split()}


@cache
def schemas() -> dict:
    return Client().get("/api/v1/schema/").json()["components"]["schemas"]


def shown(model: type[models.Model], place: str, author) -> set[str]:
    """The names that a place has."""
    if place == "form":
        return set(SubmissionForm.base_fields)
    if place == "export":
        return {column.name for column in TABLES["evaluations"].columns}
    if place == "own data":
        rows = "submissions.json" if model is Submission else "evaluations.json"
        return set(json.loads(zipfile.ZipFile(io.BytesIO(archive_of(author).read())).read(rows))[0])
    names = {"API request": "SubmissionInputRequest", "API answer": f"{model.__name__}Detail"}
    return set(schemas()[names[place]]["properties"])


@pytest.mark.parametrize(("model", "place"), [key for key in REASONS if key[1] != "deletion"])
def test_a_place_has_every_column_or_a_reason(alice, local, model, place):  # noqa: F811 - fixtures
    scenes.judged(alice, local)
    found, reasons = shown(model, place, alice), excused(model, place)
    forgotten = columns(model) - found - reasons
    assert not forgotten, f"{place} forgets {sorted(forgotten)} of {model.__name__}"
    needless = reasons - (columns(model) - found)
    assert not needless, f"{place} needs no reason for {sorted(needless)} of {model.__name__}"


@pytest.mark.parametrize("model", [Submission, Evaluation])
def test_deletion_empties_every_column_or_there_is_a_reason(client, alice, local, model):  # noqa: F811 - fixtures
    limits.clear()  # the limits that allauth counts by account
    judged = scenes.judged(alice, local, mode="check")
    row = judged if model is Submission else judged.evaluations.get()
    emptied = [field for field in fields(model) if field.name not in excused(model, "deletion")]
    samples = {
        field.name: next(SAMPLES[kind] for kind in SAMPLES if isinstance(field, kind))
        for field in emptied
        if not field.is_relation
    }
    if model is Submission:
        samples["built_on"] = scenes.submit(alice)
    model.objects.filter(pk=row.pk).update(**samples)
    row.refresh_from_db()
    before = {field: getattr(row, field.attname) for field in emptied}
    client.post("/accounts/sign-in/", {"username": "alice", "password": scenes.PASSWORD})
    client.post("/accounts/again/", {"password": scenes.PASSWORD})
    client.post("/accounts/delete/", {"entries": "anonymise", "username": "alice"})
    row.refresh_from_db()
    forgotten = sorted(field.name for field, value in before.items() if getattr(row, field.attname) == value)
    assert not forgotten, f"deletion forgets {forgotten} of {model.__name__}"
    needless = sorted(excused(model, "deletion") - columns(model))
    assert not needless, f"there is no column {needless} of {model.__name__}"
