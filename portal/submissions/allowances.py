"""Allowances: the GPU time of a day, what is left of it, and the cost of one evaluation.

A payer is an account with its own submissions, or the account or organisation that pays for runs. GPU-seconds are
seconds of judging times the GPUs of the profile: an evaluation that waits has a reservation. Its end replaces
that by the time used, or by nothing if the fault was ours. Practice profiles have no GPUs and cost none.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from django.conf import settings
from django.db.models import DateTimeField, Expression, IntegerField, Min, Q, QuerySet, SlugField, Sum

from evaluator.contract import Verdict
from evaluator.hardware import profiles
from evaluator.judging.verdicts import FACTS
from portal.accounts.models import Organisation, User
from portal.core.errors import Refusal
from portal.core.kept_statements import Given, KeptStatement
from portal.submissions.gpu_time import gpus_of, usual_seconds
from portal.submissions.hooks import EvaluationEnded, EvaluationRefunded
from portal.submissions.models import AllowanceLimit, Evaluation, GpuUse, LimitScope, State
from portal.submissions.waiting import Waiting, waiting_of

DAY = timedelta(days=1)
_SOON_S = 60


@dataclass(frozen=True, kw_only=True)
class Payer:
    """Whose allowance it is: an account's for its own submissions, or the one behind an organisation's runs.

    Attributes:
        account: the author, or the sponsor of the organisation; None where the organisation has one of its own.
        organisation: the organisation whose runs are meant; None for a person's own submissions.
    """

    account: User | None
    organisation: Organisation | None

    @property
    def key(self) -> str:
        """The value of `Evaluation.payer`."""
        return f"{self.kind}-{self.pk}"

    @property
    def kind(self) -> str:
        """What pays: an account, a sponsor's account or an organisation."""
        if self.account is None:
            return "organisation"
        return "account" if self.organisation is None else "sponsor"

    @property
    def pk(self) -> int:
        """Of the account or organisation."""
        payer = self.account or self.organisation
        assert payer is not None
        return payer.pk

    @property
    def uses(self) -> QuerySet[GpuUse]:
        """What counts against the allowance."""
        return GpuUse.objects.filter(_uses(self.kind, self.pk))

    @property
    def words(self) -> str:
        """Who it is, at the beginning of a sentence."""
        if self.organisation is None:
            return "You"
        return f"{self.account}'s organisations together" if self.account else str(self.organisation)

    def new_until(self, now: datetime) -> datetime | None:
        """Until when the account behind it counts as new; None where it does not."""
        if self.account is None:
            return None
        until = self.account.date_joined + timedelta(days=settings.NEW_ACCOUNT_DAYS)
        return until if until > now else None


def payer_of_author(author: User) -> Payer:
    """Who pays for a person's own submissions."""
    return Payer(account=author, organisation=None)


def payer_of_runs(organisation: Organisation) -> Payer:
    """Who pays for the runs of an organisation."""
    return Payer(account=organisation.sponsor if organisation.payer_id is not None else None, organisation=organisation)


@dataclass(frozen=True, kw_only=True)
class Allowance:
    """What a payer may use in any 24 hours and have in the queue: on all profiles together, or on one.

    Attributes:
        profile: the profile, empty for all of them together.
        limit_gpu_s, queued_at_most: the limits; None where there is none.
        next_release_at: when the oldest use is a day old and counts no more; None where nothing was used.
        new_until: until when the account is new and has less; None where it is not, or not for that reason.
        reason: the operator's reason for the limit.
    """

    profile: str
    limit_gpu_s: float | None
    used_gpu_s: float
    reserved_gpu_s: float
    next_release_at: datetime | None
    queued: int
    queued_at_most: int | None
    new_until: datetime | None = None
    reason: str = ""

    @property
    def remaining_gpu_s(self) -> float | None:
        """What may still be used; never negative, None where nothing limits it."""
        if self.limit_gpu_s is None:
            return None
        return max(0.0, self.limit_gpu_s - self.used_gpu_s - self.reserved_gpu_s)

    @property
    def queue_room(self) -> int | None:
        """How many more evaluations may be queued; None where nothing limits it."""
        return None if self.queued_at_most is None else max(0, self.queued_at_most - self.queued)

    def judgements(self, each_gpu_s: float) -> int | None:
        """How many more evaluations that reserve `each_gpu_s` fit; None if nothing limits them."""
        by_time = None if self.remaining_gpu_s is None or not each_gpu_s else int(self.remaining_gpu_s // each_gpu_s)
        found = [number for number in (by_time, self.queue_room) if number is not None]
        return min(found, default=None)

    def retry_after_s(self, now: datetime) -> int:
        """Seconds after which some of it may renew: a reservation is charged, or the oldest use is a day old."""
        if self.reserved_gpu_s > 0 or self.next_release_at is None:
            return _SOON_S
        return max(1, int((self.next_release_at - now).total_seconds()) + 1)


@dataclass(frozen=True, kw_only=True)
class Price:
    """What one evaluation on a profile costs, in GPU-seconds.

    Attributes:
        gpus: how many GPUs it occupies; 0 on a practice profile, which costs nothing.
        usual_gpu_s: the mean of what was judged there lately.
        reserved_gpu_s: what is reserved while it waits.
        at_most_gpu_s: what it costs if it runs until the site ends it.
    """

    profile: str
    gpus: int
    usual_gpu_s: float
    reserved_gpu_s: float
    at_most_gpu_s: float


def prices_of(names: Iterable[str]) -> dict[str, Price]:
    """What one evaluation on each of these profiles costs."""
    gpus = {name: gpus_of(name) for name in names}
    usual_s = usual_seconds([name for name, number in gpus.items() if number])
    return {
        name: Price(
            profile=name,
            gpus=number,
            usual_gpu_s=usual_s[name] * number if number else 0.0,
            reserved_gpu_s=reservation_gpu_s(name),
            at_most_gpu_s=float(settings.EVALUATION_DEADLINE_SECONDS * number),
        )
        for name, number in gpus.items()
    }


def reservation_gpu_s(profile: str) -> float:
    """What one evaluation on `profile` reserves while it waits."""
    return float(settings.RESERVED_SECONDS * gpus_of(profile))


def allowances_of(payer: Payer, *, now: datetime) -> list[Allowance]:
    """All allowances of a payer: over all profiles together first, then of each profile that has limits of its own."""
    limits, waiting = _limits(payer, now), waiting_of(payer.key)
    named = [name for name in profiles.profiles() if name in limits]
    return [_allowance(payer, limits[name], waiting, now) for name in ("", *named)]


def allowances_for(payer: Payer, profile: str, *, now: datetime, waiting: Waiting | None = None) -> list[Allowance]:
    """The allowances for an evaluation on `profile`; `waiting` is what the payer has in the queue, where known."""
    limits, known = _limits(payer, now), waiting or waiting_of(payer.key)
    return [_allowance(payer, limits[name], known, now) for name in ("", profile) if name in limits]


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What one more evaluation on a profile would cost a payer, and what they have left for it."""

    price: Price
    allowances: tuple[Allowance, ...]

    @property
    def judgements(self) -> int | None:
        """How many more evaluations fit at this moment; None where nothing limits them."""
        found = [allowance.judgements(self.price.reserved_gpu_s) for allowance in self.allowances]
        return min((number for number in found if number is not None), default=None)

    @property
    def tightest(self) -> Allowance:
        """The allowance that limits the next evaluation most."""
        each = self.price.reserved_gpu_s
        return min(self.allowances, key=lambda allowance: _or_endless(allowance.judgements(each)))

    @property
    def renews_at(self) -> datetime | None:
        """When the first of what was used comes back; None where nothing was used or the profile costs nothing."""
        if not self.price.gpus:
            return None
        limited = [allowance for allowance in self.allowances if allowance.limit_gpu_s is not None]
        return min((one.next_release_at for one in limited if one.next_release_at), default=None)

    @property
    def remaining_gpu_s(self) -> float | None:
        """GPU-seconds left for it; None where nothing limits them or the profile costs none."""
        left = [allowance.remaining_gpu_s for allowance in self.allowances if allowance.remaining_gpu_s is not None]
        return min(left, default=None) if self.price.gpus else None

    @property
    def words(self) -> str:
        """The same for a reader, in a sentence or three."""
        if not self.price.gpus:
            return f"It uses no GPU time. {_queue_words(self.tightest)}"
        price = (
            f"One evaluation usually takes {self.price.usual_gpu_s:,.0f} GPU-seconds, at most "
            f"{self.price.at_most_gpu_s:,.0f}; {self.price.reserved_gpu_s:,.0f} are reserved while it waits."
        )
        if self.remaining_gpu_s is None:
            return f"{price} {_queue_words(self.tightest)}"
        again = f"; the oldest use stops counting at {self.renews_at:%Y-%m-%d %H:%M} UTC" if self.renews_at else ""
        return f"{price} You have {self.remaining_gpu_s:,.0f} left today{again}. {_queue_words(self.tightest)}"


def _or_endless(number: int | None) -> float:
    return float("inf") if number is None else float(number)


def _queue_words(allowance: Allowance) -> str:
    if allowance.queued_at_most is None:
        return ""
    return f"{allowance.queued} of at most {allowance.queued_at_most} evaluations are in the queue."


def forecasts(payer: Payer, names: Iterable[str], *, now: datetime) -> list[Forecast]:
    """What one more evaluation would cost on each of these profiles, and what is left for it."""
    found = allowances_of(payer, now=now)
    return [
        Forecast(price=price, allowances=tuple(one for one in found if one.profile in ("", name)))
        for name, price in prices_of(names).items()
    ]


@dataclass(frozen=True, kw_only=True)
class _Limit:
    profile: str
    gpu_s: float | None
    queued: int | None
    new_until: datetime | None = None
    reason: str = ""


def _limits(payer: Payer, now: datetime) -> dict[str, _Limit]:
    """The limit that counts for all profiles together ("") and for each that a row names: the most special one."""
    new_until = payer.new_until(now)
    scopes = _scopes(payer, is_new=new_until is not None)
    found = {"": _by_settings(payer, new_until)}
    whose = payer.account if payer.organisation is None else payer.organisation
    statement = _LIMITS_OF_ACCOUNTS if payer.organisation is None else _LIMITS_OF_ORGANISATIONS
    rows = [row for row in statement.rows(whose=whose and whose.pk) if row[0] in scopes]
    for scope, profile, gpu_s, queued, reason in sorted(rows, key=lambda row: -scopes.index(row[0])):
        found[profile] = _Limit(
            profile=profile,
            gpu_s=gpu_s,
            queued=queued,
            new_until=new_until if scope == LimitScope.NEW_ACCOUNTS else None,
            reason=reason,
        )
    return found


def _scopes(payer: Payer, *, is_new: bool) -> list[str]:
    """The scopes whose rows are about `payer`, the most special first."""
    new = [LimitScope.NEW_ACCOUNTS.value] if is_new else []
    if payer.organisation is None:
        return [LimitScope.ACCOUNT.value, *new, LimitScope.ACCOUNTS.value]
    return [LimitScope.ORGANISATION.value, *new, LimitScope.ORGANISATIONS.value]


def _limits_naming(one: Q) -> QuerySet[AllowanceLimit, Any]:
    """The limits of many accounts or organisations, and those that name `one`."""
    rows = AllowanceLimit.objects.filter(Q(account=None, organisation=None) | one)
    return rows.values_list("scope", "profile", "gpu_seconds_per_day", "queued_at_most", "reason")


_WHOSE = Given("whose", IntegerField())
_LIMITS_OF_ACCOUNTS = KeptStatement(lambda: _limits_naming(Q(account=_WHOSE)))
_LIMITS_OF_ORGANISATIONS = KeptStatement(lambda: _limits_naming(Q(organisation=_WHOSE)))


def _by_settings(payer: Payer, new_until: datetime | None) -> _Limit:
    if new_until is not None:
        gpu_s, queued = settings.NEW_ACCOUNT_GPU_SECONDS_PER_DAY, settings.NEW_ACCOUNT_MAX_QUEUED
    elif payer.organisation is None:
        gpu_s, queued = settings.GPU_SECONDS_PER_DAY, settings.MAX_QUEUED_PER_AUTHOR
    else:
        gpu_s, queued = settings.ORGANISATION_GPU_SECONDS_PER_DAY, settings.MAX_QUEUED_PER_ORGANISATION
    return _Limit(profile="", gpu_s=gpu_s, queued=queued, new_until=new_until)


def _allowance(payer: Payer, limit: _Limit, waiting: Waiting, now: datetime) -> Allowance:
    statement = _used(payer.kind, is_on_profile=bool(limit.profile))
    found = statement.row(whose=payer.pk, since=now - DAY, profile=limit.profile)
    _, used, reserved, oldest = found if found is not None else (payer.pk, None, None, None)
    return Allowance(
        profile=limit.profile,
        limit_gpu_s=limit.gpu_s,
        used_gpu_s=used or 0.0,
        reserved_gpu_s=reserved or 0.0,
        next_release_at=oldest + DAY if oldest else None,
        queued=waiting.counted(limit.profile),
        queued_at_most=limit.queued,
        new_until=limit.new_until,
        reason=limit.reason,
    )


@cache
def _used(kind: str, *, is_on_profile: bool) -> KeptStatement:
    """Used since a moment, reserved now, and when the oldest of it was used: of a payer, and perhaps on one profile."""
    return KeptStatement(lambda: _summed(kind, Given("profile", SlugField()) if is_on_profile else None))


def _summed(kind: str, profile: Expression | None) -> QuerySet[GpuUse, Any]:
    uses = _uses(kind, _WHOSE)
    if profile is not None:
        uses = uses & Q(evaluation__profile=profile)
    reserved, charged = Q(used_gpu_s=None), Q(used_gpu_s__gt=0, at__gt=Given("since", DateTimeField()))
    rows = GpuUse.objects.filter(uses & (reserved | charged)).order_by()
    return rows.values_list("organisation" if kind == "organisation" else "account").annotate(
        used=Sum("used_gpu_s"),
        reserved=Sum("reserved_gpu_s", filter=reserved),
        oldest=Min("at", filter=Q(used_gpu_s__gt=0)),
    )


def _uses(kind: str, whose: int | Expression) -> Q:
    if kind == "organisation":
        return Q(account=None, organisation=whose)
    return Q(account=whose, organisation__isnull=kind == "account")


def require_allowance(payer: Payer, profile: str, *, waiting: Waiting, now: datetime, is_guests: bool = False) -> None:
    """Refuse one more evaluation on `profile` that does not fit; runs while the payer's row is locked.

    With `is_guests` a guest node judges it: that costs the site no GPU time, and only the queue has limits.

    Raises:
        Refusal: nothing is allowed there (403), or not before some of it has come back (429).
    """
    each = 0.0 if is_guests else reservation_gpu_s(profile)
    for allowance in allowances_for(payer, profile, now=now, waiting=waiting):
        if allowance.judgements(each) == 0:
            raise refusal(payer, allowance, profile, now=now)


def refusal(payer: Payer, allowance: Allowance, profile: str, *, now: datetime) -> Refusal:
    """The refusal if `allowance` has no room for one more evaluation on `profile`."""
    where = f" on {allowance.profile}" if allowance.profile else ""
    if _never_fits(allowance, profile):
        return _not_allowed(payer, allowance, profile)
    more = _remedy(allowance)
    if allowance.queue_room == 0:
        return Refusal(
            field="",
            value=str(allowance.queued),
            message=f"{payer.words} {_have(payer)} {allowance.queued} evaluations in the queue{where}, which is the "
            f"limit.{_because(allowance)}",
            remedy=f"Wait until one has ended, or cancel one.{more}",
            status=429,
            retry_after_s=_SOON_S,
        )
    assert allowance.limit_gpu_s is not None
    assert allowance.remaining_gpu_s is not None
    return Refusal(
        field="profile",
        value=profile,
        message=f"{payer.words} {_have(payer)} {allowance.remaining_gpu_s:,.0f} of {allowance.limit_gpu_s:,.0f} "
        f"GPU-seconds a day left{where}. One more evaluation on {profile} reserves "
        f"{reservation_gpu_s(profile):,.0f}.{_because(allowance)}",
        remedy=f"{_renewal(allowance)} Or choose a profile with fewer GPUs, or a practice one.{more}",
        status=429,
        retry_after_s=allowance.retry_after_s(now),
    )


def _have(payer: Payer) -> str:
    return "have" if payer.organisation is None or payer.account else "has"


def _never_fits(allowance: Allowance, profile: str) -> bool:
    is_too_small = allowance.limit_gpu_s is not None and allowance.limit_gpu_s < reservation_gpu_s(profile)
    return is_too_small or allowance.queued_at_most == 0


def _not_allowed(payer: Payer, allowance: Allowance, profile: str) -> Refusal:
    where = f"on {allowance.profile}" if allowance.profile else "on this site"
    if allowance.queued_at_most == 0:
        limit = f"may have no evaluation in the queue {where}."
    else:
        limit = (
            f"may use {allowance.limit_gpu_s:,.0f} GPU-seconds a day {where}. One evaluation on {profile} "
            "reserves more."
        )
    return Refusal(
        field="profile",
        value=profile,
        message=f"{payer.words} {limit}{_because(allowance)}",
        remedy=f"Choose another profile, or ask the operator for more.{_remedy(allowance)}",
        status=403,
    )


def _because(allowance: Allowance) -> str:
    return f" Reason: {allowance.reason}" if allowance.reason else ""


def _remedy(allowance: Allowance) -> str:
    return f" The account is new. From {allowance.new_until:%Y-%m-%d} on it has more." if allowance.new_until else ""


def _renewal(allowance: Allowance) -> str:
    if allowance.next_release_at is None:
        return "Wait until your evaluations in the queue have ended."
    return f"Wait until {allowance.next_release_at:%Y-%m-%d %H:%M} UTC, when the oldest use stops counting."


def reserve(payer: Payer, evaluations: Iterable[Evaluation]) -> None:
    """Reserve the GPU time of evaluations that were just queued."""
    GpuUse.objects.bulk_create(
        GpuUse(
            organisation=payer.organisation,
            account=payer.account,
            evaluation=evaluation,
            reserved_gpu_s=reservation_gpu_s(evaluation.profile),
        )
        for evaluation in evaluations
        if reservation_gpu_s(evaluation.profile) and evaluation.node_owner_id is None
    )


def charge_ended(ended: EvaluationEnded) -> None:
    """Replace the reservation of an evaluation that has ended by the GPU time that it used."""
    evaluation = ended.evaluation
    reserved = GpuUse.objects.filter(evaluation=evaluation, used_gpu_s=None)
    reserved.update(used_gpu_s=charge(evaluation), at=evaluation.finished_at)


def refund(refunded: EvaluationRefunded) -> None:
    """Give back the GPU time of an ended evaluation; a second call changes nothing."""
    GpuUse.objects.filter(evaluation=refunded.evaluation).exclude(used_gpu_s=None).update(used_gpu_s=0.0)


def charge(evaluation: Evaluation) -> float:
    """GPU-seconds that an evaluation that has ended costs: nothing where the fault was ours."""
    # A cancelled evaluation costs the time used so far: otherwise cancelling just before the end would be free.
    is_charged = FACTS[Verdict(evaluation.verdict)].is_charged if evaluation.verdict else False
    if not is_charged and evaluation.state != State.CANCELLED:
        return 0.0
    if evaluation.started_at is None or evaluation.finished_at is None:
        return 0.0
    return (evaluation.finished_at - evaluation.started_at).total_seconds() * gpus_of(evaluation.profile)
