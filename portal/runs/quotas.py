"""The GPU time of an organisation's runs in 30 days: used, reserved and left.

The quota is the sponsor's: all organisations of one account share it, so that making organisations makes no time. An
operator may grant an organisation one of its own. What is charged, and what may be used in a day, is said in
`portal.submissions.allowances`.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Q, Sum

from portal.accounts.models import Organisation
from portal.runs.models import Run
from portal.submissions.allowances import payer_of_runs
from portal.submissions.models import GpuUse

WINDOW = timedelta(days=30)


@dataclass(frozen=True, kw_only=True)
class Quota:
    """GPU-seconds in the last 30 days of the allowance that an organisation draws on.

    `sponsor` is whose allowance it is, shared by all organisations that they sponsor; None where it is its own.
    `next_release_at` is when the oldest use leaves the 30 days.
    """

    organisation: str
    sponsor: str | None
    limit_gpu_s: float
    used_gpu_s: float
    reserved_gpu_s: float
    next_release_at: datetime | None
    window_days: int = WINDOW.days

    @property
    def owner(self) -> str:
        """Whose it is, in words."""
        return f"{self.sponsor}'s organisations together" if self.sponsor else self.organisation

    @property
    def remaining_gpu_s(self) -> float:
        """What may still be used; never negative."""
        return max(0.0, self.limit_gpu_s - self.used_gpu_s - self.reserved_gpu_s)

    def retry_after_s(self, now: datetime) -> int:
        """Seconds after which some of it renews: the oldest use leaves the window, or a reservation is charged."""
        if self.reserved_gpu_s > 0:
            return 60
        if self.next_release_at is None:
            return int(WINDOW.total_seconds())
        return max(1, int((self.next_release_at - now).total_seconds()))


def quota_of(organisation: Organisation, *, now: datetime) -> Quota:
    """The organisation's quota at `now`."""
    uses = payer_of_runs(organisation).uses
    lately = uses.filter(at__gt=now - WINDOW)
    charged = lately.exclude(used_gpu_s=None).aggregate(total=Sum("used_gpu_s"))["total"] or 0.0
    reserved = uses.filter(used_gpu_s=None).aggregate(total=Sum("reserved_gpu_s"))["total"] or 0.0
    oldest = lately.filter(used_gpu_s__gt=0).order_by("at").values_list("at", flat=True).first()
    return Quota(
        organisation=organisation.slug,
        sponsor=organisation.sponsor.username if organisation.payer_id and organisation.sponsor else None,
        limit_gpu_s=organisation.quota_gpu_s,
        used_gpu_s=charged,
        reserved_gpu_s=reserved,
        next_release_at=oldest + WINDOW if oldest else None,
    )


@dataclass(frozen=True, kw_only=True)
class RunUse:
    """GPU-seconds of one run in the last 30 days."""

    run: Run
    used_gpu_s: float
    reserved_gpu_s: float


def use_by_run(organisation: Organisation, *, now: datetime, most: int = 20) -> list[RunUse]:
    """What the organisation's own runs have used and reserved, the most first."""
    rows = (
        GpuUse.objects.filter(organisation=organisation, at__gt=now - WINDOW)
        .values_list("evaluation__submission__attempt__run")
        .annotate(used=Sum("used_gpu_s"), held=Sum("reserved_gpu_s", filter=Q(used_gpu_s=None)))
        .order_by("-used")[:most]
    )
    found = {pk: (used or 0.0, held or 0.0) for pk, used, held in rows}
    runs = Run.objects.select_related("model").in_bulk(found)
    uses = [RunUse(run=runs[pk], used_gpu_s=used, reserved_gpu_s=held) for pk, (used, held) in found.items()]
    return sorted(uses, key=lambda use: -(use.used_gpu_s + use.reserved_gpu_s))


def locked(organisation_id: int) -> Organisation:
    """The organisation, with all rows locked that may draw on the same allowance: no two uploads both take its rest.

    Runs in a transaction. The rows are locked in the order of their keys, so that two callers cannot block each other.
    """
    sponsor = Organisation.objects.filter(pk=organisation_id).values("sponsor")
    shares = Q(sponsor__in=sponsor) | Q(pk=organisation_id)
    rows = Organisation.objects.select_for_update().filter(shares).order_by("pk")
    return next(row for row in rows if row.pk == organisation_id)
