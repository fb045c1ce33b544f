"""Making a run, publishing it, and what operators decide of it."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.text import slugify

from evaluator.contract import Backend
from portal.accounts.actions import lock_account
from portal.accounts.models import Organisation, User
from portal.accounts.organisations import default_organisation
from portal.catalog.queries import check_backend, get_profile
from portal.core.errors import Conflict, Forbidden, Refusal, check_choice, check_replay
from portal.runs import queries
from portal.runs.models import (
    AttemptState,
    Decision,
    DecisionKind,
    EventKind,
    LanguageModel,
    Run,
    RunEvent,
    RunMode,
    RunState,
    Verification,
    record,
)
from portal.submissions import actions as submissions

MAX_K = 1000
MAX_SAMPLING_BYTES = 4096
MAX_SAMPLING_DEPTH = 20
MAX_NOTES = 4000
_DECLARED = ("mode", "backend", "profile", "k", "sampling", "prompt_version", "cost_usd")
"""What a run keeps as it was declared."""
_SURROGATE = re.compile(r"\\ud[89a-f][0-9a-f]{2}", re.IGNORECASE)
"""Characters beyond the basic plane and halves of them as `json.dumps` writes both; PostgreSQL refuses the halves."""


@dataclass(frozen=True, kw_only=True)
class RunDeclaration:
    """What a vendor declares of a run when creating it."""

    model: str
    mode: str
    profile: str
    version: str = ""
    provider: str = ""
    organisation: str | None = None
    backend: str = Backend.PYTORCH.value
    k: int = 1
    sampling: Mapping[str, Any] = field(default_factory=dict)
    prompt_version: str = ""
    cost_usd: float | None = None
    notes: str = ""


def create_run(user: User, declaration: RunDeclaration, *, idempotency_key: str | None = None) -> Run:
    """Make an empty private run, and its model and organisation where they are new.

    The same request with the same `idempotency_key` gives the same run again.

    Raises:
        Refusal: a choice is unknown or does not fit the others. A text is empty or too long. The organisation is not
            theirs (404) or not clear (409). The key was used for a run with other settings (409).
    """
    check_declaration(declaration)
    texts = ("model", "version", "provider", "prompt_version", "notes")
    declaration = replace(declaration, **{name: getattr(declaration, name).strip() for name in texts})
    try:
        with transaction.atomic():
            lock_account(user)
            earlier = _earlier(user, declaration, key=idempotency_key)
            if earlier is not None:
                return earlier
            return Run.objects.create(
                model=model_of(default_organisation(user, declaration.organisation), declaration),
                created_by=user,
                notes=declaration.notes,
                idempotency_key=idempotency_key,
                **{name: getattr(declaration, name) for name in _DECLARED},
            )
    except IntegrityError as error:
        message = "Another call created the same model at the same moment."
        raise Conflict("model", declaration.model, message, "Send the request again.") from error


def check_declaration(declaration: RunDeclaration) -> None:
    """Refuse what no run can be declared as."""
    check_choice("mode", declaration.mode, RunMode.values)
    check_choice("backend", declaration.backend, Backend)
    check_backend(get_profile(declaration.profile), declaration.backend)
    _check_words(declaration)
    _check_amounts(declaration)


def publish_run(run: Run, *, by: User, sources: str) -> Run:
    """Let everybody see a run; with `sources` "public" also what its attempts wrote. Twice changes nothing.

    Raises:
        Refusal: it is not theirs (403), attempts are pending or there is none (409), or `sources` is unknown.
    """
    queries.require_change(by, run)
    check_choice("sources", sources, ("public", "private"), noun="choice")
    with transaction.atomic():
        current = Run.objects.select_for_update(of=("self",)).select_related("model").get(pk=run.pk)
        if current.is_published:
            return current
        _check_complete(current)
        current.state = RunState.PUBLISHED
        current.published_at = timezone.now()
        current.are_sources_public = sources == "public"
        current.save(update_fields=["state", "published_at", "are_sources_public"])
        if current.are_sources_public:
            submissions.publish_sources(current.attempts.exclude(submission=None).values_list("submission", flat=True))
        record(current, [RunEvent(run=current, kind=EventKind.RUN_PUBLISHED)])
    return current


def _check_complete(run: Run) -> None:
    pending = run.attempts.filter(state=AttemptState.PENDING).count()
    if pending:
        remedy = "Wait until none is pending. The results feed shows when."
        raise Conflict("run", run.pk, f"{pending} of its attempts are not judged yet.", remedy)
    if not run.attempts.exists():
        raise Conflict("run", run.pk, "The run has no attempts.", "Upload attempts first.")


def _check_words(declaration: RunDeclaration) -> None:
    if not declaration.model.strip():
        raise Refusal("model", "", "The name of the model is empty.", "Give the model a name.")
    for name, most in (("model", 80), ("version", 40), ("provider", 80), ("prompt_version", 80)):
        value = getattr(declaration, name)
        if len(value) > most or not value.isprintable():
            message = f"This is longer than {most} characters or has characters that cannot be printed."
            raise Refusal(name, repr(value)[:80], message, "Shorten it.")
    if len(declaration.notes) > MAX_NOTES or "\0" in declaration.notes:
        message = f"The notes are longer than {MAX_NOTES} characters or contain NUL."
        raise Refusal("notes", declaration.notes, message, "Shorten them.")


def _check_amounts(declaration: RunDeclaration) -> None:
    if not 1 <= declaration.k <= MAX_K:
        raise Refusal("k", declaration.k, f"k must be from 1 to {MAX_K}.", "Choose a number in it.")
    if declaration.mode == RunMode.SINGLE_SHOT and declaration.k != 1:
        raise Refusal(
            "k", declaration.k, "A single-shot run has one sample per problem.", "Leave k out, or declare best_of_k."
        )
    if declaration.cost_usd is not None and not (
        math.isfinite(declaration.cost_usd) and 0 <= declaration.cost_usd < 1e9
    ):
        message = "This is not an amount from 0 to 1,000,000,000."
        raise Refusal("cost_usd", declaration.cost_usd, message, "Correct it or leave it out.")
    remedy = "Keep only the settings that decide the sampling."
    try:
        # The database refuses values that JSON does not have, such as the infinity that 1e999 is read as.
        text = json.dumps(declaration.sampling, allow_nan=False)
        _check_depth(declaration.sampling, most=MAX_SAMPLING_DEPTH)
    except (ValueError, RecursionError) as error:
        message = "The sampling settings have a number that is too large, or are nested too deeply."
        raise Refusal("sampling", "", message, remedy) from error
    if len(text) > MAX_SAMPLING_BYTES or "\\u0000" in text or _SURROGATE.search(text):
        message = f"The sampling settings take more than {MAX_SAMPLING_BYTES} characters or contain NUL."
        raise Refusal("sampling", text, message, remedy)


def _check_depth(value: object, *, most: int) -> None:
    """Raise ValueError where lists and objects are nested deeper than `most`: writing them out takes stack."""
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    if most == 0 and inner:
        raise ValueError("nested too deeply")
    for part in inner:
        _check_depth(part, most=most - 1)


def _earlier(user: User, declaration: RunDeclaration, *, key: str | None) -> Run | None:
    if not key:
        return None
    earlier = Run.objects.select_related("model__organisation").filter(created_by=user, idempotency_key=key).first()
    if earlier is None:
        return None
    # The provider belongs to the model and may come from an earlier run. Notes may differ.
    stored = {
        "organisation": earlier.model.organisation.slug,
        "model": earlier.model.name,
        "version": earlier.model.version,
        **{name: getattr(earlier, name) for name in _DECLARED},
    }
    # Which home an organisation that is not named would be found in may have changed since.
    request = {name: getattr(declaration, name) for name in stored}
    request["organisation"] = request["organisation"] or stored["organisation"]
    check_replay(field="Idempotency-Key", key=key, what="run", pk=earlier.pk, request=request, stored=stored)
    return earlier


def model_of(organisation: Organisation, declaration: RunDeclaration) -> LanguageModel:
    """The organisation's model of this name and version, made where it is new."""
    name, version = declaration.model.strip(), declaration.version.strip()
    found = LanguageModel.objects.filter(organisation=organisation, name=name, version=version).first()
    if found is not None:
        return found
    return LanguageModel.objects.create(
        organisation=organisation,
        name=name,
        version=version,
        provider=declaration.provider.strip() or organisation.name,
        slug=_free_slug(f"{name} {version}", organisation),
    )


def _free_slug(title: str, organisation: Organisation) -> str:
    plain = slugify(title.replace(".", "-").replace("/", "-"))[:90] or f"model-of-{organisation.slug}"[:90]
    taken = set(LanguageModel.objects.filter(slug__startswith=plain).values_list("slug", flat=True))
    candidates = (plain, f"{plain}-{organisation.slug}"[:110], *(f"{plain}-{number}" for number in range(2, 10_000)))
    return next(slug for slug in candidates if slug not in taken)


def decide(run: Run, *, kind: str, reason: str, by: User) -> Decision:
    """Verify, audit, quarantine or release a run, and keep who did it and why.

    A quarantined run keeps its page, with the reason, and is on no board and in no public export.

    Raises:
        Refusal: `by` is no operator (403), there is no such decision, or no reason was given.
    """
    if not by.is_staff:
        raise Forbidden("run", run.pk, "Only an operator can decide on runs.", "Ask the operator of this site.")
    check_choice("kind", kind, DecisionKind.values, noun="decision")
    if not reason.strip():
        raise Refusal("reason", "", "The decision has no reason.", "Give a reason. It is public.")
    changes = _changes(run, DecisionKind(kind))
    with transaction.atomic():
        Run.objects.filter(pk=run.pk).update(**changes)
        decision = Decision.objects.create(run=run, kind=kind, reason=reason.strip(), by=by)
    run.refresh_from_db()
    return decision


def _changes(run: Run, kind: DecisionKind) -> dict[str, object]:
    if kind in (DecisionKind.QUARANTINED, DecisionKind.RELEASED):
        return {"is_quarantined": kind == DecisionKind.QUARANTINED}
    if kind == DecisionKind.WITHDRAWN:
        return {"verification": Verification.RECORDED if run.recorded_on else Verification.JUDGED_HERE}
    return {"verification": Verification(kind.value)}
