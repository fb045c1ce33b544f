"""Quotas: the GPU time that somebody may use, what is left of it, and the cost of one evaluation.

A payer is an account with its own submissions, or the account or organisation that pays for runs. The organisations of
one account share its quota, so that making organisations makes no time; an operator may grant an organisation one of
its own. GPU-seconds are seconds of judging times the GPUs of the profile: an evaluation that waits has a reservation.
Its end replaces that by the time used, or by nothing if the fault was ours. Practice profiles have no GPUs and cost
none.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from statistics import fmean

from django.conf import settings
from django.core.cache import cache
from django.db.models import F, Min, Q, QuerySet, Sum

from evaluator.contract import Verdict
from evaluator.hardware import profiles
from evaluator.judging.verdicts import FACTS
from portal.accounts.actions import lock_account
from portal.accounts.models import Organisation, User
from portal.core.errors import Forbidden, Refusal, TooMany
from portal.submissions.models import AllowanceLimit, Evaluation, GpuUse, LimitScope, State
from portal.submissions.queue import Waiting, waiting_of

DAY = timedelta(days=1)
MONTH = timedelta(days=30)
_SOON_S = 60
_RECENT = 50
_USUAL_FOR_S = 60
"""The submit page asks of every profile."""


@dataclass(frozen=True, kw_only=True)
class Payer:
    """Whose quota it is: an account's for its own submissions, or the one behind an organisation's runs.

    Attributes:
        account: the author, or the sponsor of the organisation; None where the organisation has one of its own.
        organisation: the organisation whose runs are meant; None for a person's own submissions.
    """

    account: User | None
    organisation: Organisation | None

    @property
    def key(self) -> str:
        if self.account is None:
            assert self.organisation is not None
            return f"organisation-{self.organisation.pk}"
        return f"{'account' if self.organisation is None else 'sponsor'}-{self.account.pk}"

    @property
    def uses(self) -> QuerySet[GpuUse]:
        if self.account is None:
            return GpuUse.objects.filter(account=None, organisation=self.organisation)
        return GpuUse.objects.filter(account=self.account, organisation__isnull=self.organisation is None)

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
    return Payer(account=author, organisation=None)


def payer_of_runs(organisation: Organisation) -> Payer:
    return Payer(account=organisation.sponsor if organisation.payer_id is not None else None, organisation=organisation)


def lock_author(author: User) -> Payer:
    """The author as the payer, whose row is locked so that two requests at once cannot both pass the checks that count.

    The other database, SQLite, allows one writing transaction at a time anyway.
    """
    lock_account(author)
    return payer_of_author(author)


def lock_organisation(organisation_id: int) -> Payer:
    """Who pays for the runs of the organisation, with all rows locked that may draw on the same quota.

    The rows are locked in the order of their keys, so that two callers cannot block each other.
    """
    shares = Q(sponsor__in=Organisation.objects.filter(pk=organisation_id).values("sponsor")) | Q(pk=organisation_id)
    rows = Organisation.objects.select_for_update().filter(shares).order_by("pk")
    return payer_of_runs(next(row for row in rows if row.pk == organisation_id))


@dataclass(frozen=True, kw_only=True)
class _Rule:
    """What a payer may use and have in the queue: on all profiles together, or on one.

    Attributes:
        profile: the profile, empty for all of them together.
        limit_gpu_s, queued_at_most: the limits; None where there is none.
        window: in how long a time `limit_gpu_s` may be used.
        new_until: until when the account is new and has less; None where it is not, or not for that reason.
        reason: the operator's reason for the limit.
    """

    limit_gpu_s: float | None
    queued_at_most: int | None = None
    profile: str = ""
    window: timedelta = DAY
    new_until: datetime | None = None
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Limit(_Rule):
    """A rule, and what a payer has used of it; `next_release_at` is when the oldest use counts no more, if any."""

    payer: Payer
    used_gpu_s: float
    reserved_gpu_s: float
    next_release_at: datetime | None
    queued: int

    @property
    def remaining_gpu_s(self) -> float | None:
        """What may still be used; never negative, None where nothing limits it."""
        if self.limit_gpu_s is None:
            return None
        return max(0.0, self.limit_gpu_s - self.used_gpu_s - self.reserved_gpu_s)

    def judgements(self, each_gpu_s: float) -> int | None:
        """How many more evaluations that reserve `each_gpu_s` fit; None if nothing limits them."""
        by_time = None if self.remaining_gpu_s is None or not each_gpu_s else int(self.remaining_gpu_s // each_gpu_s)
        by_queue = None if self.queued_at_most is None else max(0, self.queued_at_most - self.queued)
        return min((number for number in (by_time, by_queue) if number is not None), default=None)

    def retry_after_s(self, now: datetime) -> int:
        """Seconds after which some of it may renew: a reservation is charged, or the oldest use leaves the window."""
        if self.reserved_gpu_s > 0:
            return _SOON_S
        if self.next_release_at is None:
            return int(self.window.total_seconds())
        return max(1, int((self.next_release_at - now).total_seconds()) + 1)


def limits_of(payer: Payer, *, now: datetime) -> list[Limit]:
    """A payer's limits of a day: over all profiles together first, then of each profile with limits of its own."""
    waiting, rules = waiting_of(payer.key), _rules(payer, now)
    return [_limit(payer, rules[name], waiting, now) for name in ("", *profiles.profiles()) if name in rules]


def quota_of(organisation: Organisation, *, now: datetime) -> Limit:
    # Of the queue this says nothing.
    return _limit(payer_of_runs(organisation), _month(organisation), Waiting(groups={}), now)


def _month(organisation: Organisation) -> _Rule:
    granted = organisation.gpu_seconds
    return _Rule(limit_gpu_s=settings.GPU_SECONDS_PER_30_DAYS if granted is None else granted, window=MONTH)


def _rules(payer: Payer, now: datetime) -> dict[str, _Rule]:
    """The rule of a day for all profiles together ("") and for each that a row names: the most special one."""
    new_until = payer.new_until(now)
    if new_until is not None:
        gpu_s, queued = settings.NEW_ACCOUNT_GPU_SECONDS_PER_DAY, settings.NEW_ACCOUNT_MAX_QUEUED
    elif payer.organisation is None:
        gpu_s, queued = settings.GPU_SECONDS_PER_DAY, settings.MAX_QUEUED_PER_AUTHOR
    else:
        gpu_s, queued = settings.ORGANISATION_GPU_SECONDS_PER_DAY, settings.MAX_QUEUED_PER_ORGANISATION
    found = {"": _Rule(limit_gpu_s=gpu_s, queued_at_most=queued, new_until=new_until)}
    if payer.organisation is None:
        whose, many, one = Q(account=payer.account), LimitScope.ACCOUNTS, LimitScope.ACCOUNT
    else:
        whose, many, one = Q(organisation=payer.organisation), LimitScope.ORGANISATIONS, LimitScope.ORGANISATION
    # The most special one last.
    scopes = [many, *([LimitScope.NEW_ACCOUNTS] if new_until is not None else []), one]
    rows = AllowanceLimit.objects.filter(whose | Q(account=None, organisation=None), scope__in=scopes)
    for row in sorted(rows, key=lambda row: scopes.index(LimitScope(row.scope))):
        found[row.profile] = _Rule(
            profile=row.profile,
            limit_gpu_s=row.gpu_seconds_per_day,
            queued_at_most=row.queued_at_most,
            new_until=new_until if row.scope == LimitScope.NEW_ACCOUNTS else None,
            reason=row.reason,
        )
    return found


def _limit(payer: Payer, rule: _Rule, waiting: Waiting, now: datetime) -> Limit:
    reserved, charged = Q(used_gpu_s=None), Q(used_gpu_s__gt=0, at__gt=now - rule.window)
    uses = payer.uses.filter(evaluation__profile=rule.profile) if rule.profile else payer.uses
    found = uses.filter(reserved | charged).aggregate(
        used=Sum("used_gpu_s"), reserved=Sum("reserved_gpu_s", filter=reserved), oldest=Min("at", filter=charged)
    )
    return Limit(
        payer=payer,
        used_gpu_s=found["used"] or 0.0,
        reserved_gpu_s=found["reserved"] or 0.0,
        next_release_at=found["oldest"] + rule.window if found["oldest"] else None,
        queued=waiting.counted(rule.profile),
        **vars(rule),
    )


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


def gpus_of(profile: str) -> int:
    """The GPUs that one evaluation on `profile` occupies; a practice profile has none."""
    chosen = profiles.get(profile)
    return chosen.gpus if chosen.is_ranked_by_speed else 0


def reservation_gpu_s(profile: str) -> float:
    return float(settings.RESERVED_SECONDS * gpus_of(profile))


def price_of(profile: str) -> Price:
    """What one evaluation on this profile costs; the mean is up to a minute old."""
    gpus = gpus_of(profile)
    usual_s = cache.get_or_set(f"usual-seconds-{profile}", lambda: _usual_seconds(profile), _USUAL_FOR_S) if gpus else 0
    return Price(
        profile=profile,
        gpus=gpus,
        usual_gpu_s=float((usual_s or 0) * gpus),
        reserved_gpu_s=reservation_gpu_s(profile),
        at_most_gpu_s=float(settings.EVALUATION_DEADLINE_SECONDS * gpus),
    )


def _usual_seconds(profile: str) -> float:
    """The mean seconds of the evaluations judged last on a profile; the reservation where there are none."""
    judged = Evaluation.objects.filter(profile=profile, state=State.FINISHED).exclude(started_at=None)
    # In the order of the queue's index: there may be millions.
    took = judged.order_by("priority", "-queued_at").values_list(F("finished_at") - F("started_at"), flat=True)
    seconds = [each.total_seconds() for each in took[:_RECENT]]
    return fmean(seconds) if seconds else settings.RESERVED_SECONDS


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What one more evaluation on a profile would cost a payer, and what they have left for it."""

    price: Price
    allowances: tuple[Limit, ...]

    @property
    def judgements(self) -> int | None:
        """How many more evaluations fit at this moment; None where nothing limits them."""
        return self.tightest.judgements(self.price.reserved_gpu_s)

    @property
    def tightest(self) -> Limit:
        """The limit that allows the fewest more evaluations."""
        return _tightest(self.allowances, self.price.reserved_gpu_s)

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
        queue = ""
        if self.tightest.queued_at_most is not None:
            queue = f"{self.tightest.queued} of at most {self.tightest.queued_at_most} evaluations are in the queue."
        if not self.price.gpus:
            return f"It uses no GPU time. {queue}"
        price = (
            f"One evaluation usually takes {self.price.usual_gpu_s:,.0f} GPU-seconds, at most "
            f"{self.price.at_most_gpu_s:,.0f}; {self.price.reserved_gpu_s:,.0f} are reserved while it waits."
        )
        if self.remaining_gpu_s is None:
            return f"{price} {queue}"
        again = f"; the oldest use stops counting at {self.renews_at:%Y-%m-%d %H:%M} UTC" if self.renews_at else ""
        return f"{price} You have {self.remaining_gpu_s:,.0f} left today{again}. {queue}"


def _tightest(limits: Iterable[Limit], each_gpu_s: float) -> Limit:
    """The limit with room for the fewest more evaluations that reserve `each_gpu_s`; of equals the first."""
    rooms = [(limit.judgements(each_gpu_s), limit) for limit in limits]
    return min(rooms, key=lambda room: math.inf if room[0] is None else room[0])[1]


def forecasts(payer: Payer, names: Iterable[str], *, now: datetime) -> list[Forecast]:
    """What one more evaluation would cost on each of these profiles, and what is left for it."""
    found = limits_of(payer, now=now)
    return [
        Forecast(price=price_of(name), allowances=tuple(one for one in found if one.profile in ("", name)))
        for name in names
    ]


def tightest_limit(
    payer: Payer, profile: str, *, now: datetime, waiting: Waiting | None = None, is_guests: bool = False
) -> Limit:
    """The limit that allows the payer the fewest more evaluations on `profile`; runs while the payer's row is locked.

    With `is_guests` a guest node judges them: that costs the site no GPU time, and only the queue has limits.
    """
    rules, known = _rules(payer, now), waiting or waiting_of(payer.key)
    chosen = [rules[name] for name in ("", profile) if name in rules]
    if payer.organisation is not None:
        chosen = [_month(payer.organisation), *chosen]
    limits = (_limit(payer, rule, known, now) for rule in chosen)
    return _tightest(limits, 0.0 if is_guests else reservation_gpu_s(profile))


def require_room(payer: Payer, profile: str, *, waiting: Waiting, now: datetime, is_guests: bool) -> None:
    """Refuse one more evaluation on `profile` that does not fit; as `tightest_limit`.

    Raises:
        Refusal: nothing is allowed there (403), or not before some of it has come back (429).
    """
    limit = tightest_limit(payer, profile, now=now, waiting=waiting, is_guests=is_guests)
    if limit.judgements(0.0 if is_guests else reservation_gpu_s(profile)) == 0:
        raise refusal(limit, profile, now=now)


def refusal(limit: Limit, profile: str, *, now: datetime, after: int = 0) -> Refusal:
    """The refusal if `limit` has no room for one more evaluation on `profile` after so many that fit.

    Who is refused waits for those, too.
    """
    each = reservation_gpu_s(profile)
    renewal = "Wait until your evaluations in the queue have ended."
    if limit.next_release_at is not None:
        renewal = f"Wait until {limit.next_release_at:%Y-%m-%d %H:%M} UTC, when the oldest use stops counting."
    full = replace(limit, reserved_gpu_s=limit.reserved_gpu_s + after * each, queued=limit.queued + after)
    if limit.window == MONTH:
        return TooMany(
            "quota",
            f"{limit.remaining_gpu_s:.0f} GPU-seconds left",
            f"The quota of {limit.payer.words} is used up: one more judgement on {profile} takes about "
            f"{each:.0f} of its {limit.limit_gpu_s:.0f} GPU-seconds in {limit.window.days} days.",
            "Wait until earlier use is 30 days old or pending evaluations have ended, or ask the operator for more.",
            retry_after_s=full.retry_after_s(now),
        )
    is_too_small = limit.limit_gpu_s is not None and limit.limit_gpu_s < each
    if is_too_small or limit.queued_at_most == 0:
        return _not_allowed(limit, profile)
    who, have = limit.payer.words, "have" if limit.payer.account else "has"
    where = f" on {limit.profile}" if limit.profile else ""
    more = _remedy(limit)
    if limit.queued_at_most is not None and full.queued >= limit.queued_at_most:
        message = f"{who} {have} {full.queued} evaluations in the queue{where}, which is the limit.{_because(limit)}"
        remedy = f"Wait until one has ended, or cancel one.{more}"
        return TooMany("", full.queued, message, remedy, retry_after_s=_SOON_S)
    return TooMany(
        "profile",
        profile,
        f"{who} {have} {full.remaining_gpu_s:,.0f} of {limit.limit_gpu_s:,.0f} GPU-seconds a day left{where}. "
        f"One more evaluation on {profile} reserves {each:,.0f}.{_because(limit)}",
        f"{renewal} Or choose a profile with fewer GPUs, or a practice one.{more}",
        retry_after_s=full.retry_after_s(now),
    )


def _not_allowed(limit: Limit, profile: str) -> Refusal:
    where = f"on {limit.profile}" if limit.profile else "on this site"
    allowed = (
        f"may use {limit.limit_gpu_s or 0:,.0f} GPU-seconds a day {where}. One evaluation on {profile} reserves more."
    )
    if limit.queued_at_most == 0:
        allowed = f"may have no evaluation in the queue {where}."
    remedy = f"Choose another profile, or ask the operator for more.{_remedy(limit)}"
    return Forbidden("profile", profile, f"{limit.payer.words} {allowed}{_because(limit)}", remedy)


def _because(limit: Limit) -> str:
    return f" Reason: {limit.reason}" if limit.reason else ""


def _remedy(limit: Limit) -> str:
    return f" The account is new. From {limit.new_until:%Y-%m-%d} on it has more." if limit.new_until else ""


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


def settle(evaluation: Evaluation) -> None:
    """Replace the reservation of an evaluation that has ended by the GPU time that it used."""
    reserved = GpuUse.objects.filter(evaluation=evaluation, used_gpu_s=None)
    reserved.update(used_gpu_s=charge(evaluation), at=evaluation.finished_at)


def refund(evaluations: Iterable[Evaluation]) -> None:
    """Give back the GPU time of evaluations that have ended; a second call changes nothing."""
    GpuUse.objects.filter(evaluation__in=list(evaluations)).exclude(used_gpu_s=None).update(used_gpu_s=0.0)


def charge(evaluation: Evaluation) -> float:
    """GPU-seconds that an evaluation that has ended costs: nothing where the fault was ours."""
    # A cancelled evaluation costs the time used so far: otherwise cancelling just before the end would be free.
    is_charged = FACTS[Verdict(evaluation.verdict)].is_charged if evaluation.verdict else False
    if not is_charged and evaluation.state != State.CANCELLED:
        return 0.0
    if evaluation.started_at is None or evaluation.finished_at is None:
        return 0.0
    return (evaluation.finished_at - evaluation.started_at).total_seconds() * gpus_of(evaluation.profile)
