"""What a payer has in the queue: what of it counts against the payer's allowances, and the payer's last turns."""

from dataclasses import dataclass

from django.db.models import CharField, Count, Max

from portal.core.kept_statements import Given, KeptStatement
from portal.submissions.models import Evaluation, State
from portal.submissions.priorities import REJUDGE_PRIORITY


@dataclass(frozen=True, kw_only=True)
class _Group:
    """A payer's unfinished evaluations of one priority on one profile."""

    profile: str
    priority: int
    number: int
    last_turn: int


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """A payer's unfinished evaluations."""

    groups: tuple[_Group, ...]

    def counted(self, profile: str = "") -> int:
        """How many count against a limit of `profile`, or of all together; an operator's rejudges do not."""
        own = (group for group in self.groups if group.priority != REJUDGE_PRIORITY)
        return sum(group.number for group in own if profile in ("", group.profile))

    def last_turn(self, *, profile: str, priority: int) -> int | None:
        """The last turn that the payer has of this priority on `profile`; None without any."""
        found = (group.last_turn for group in self.groups if (group.profile, group.priority) == (profile, priority))
        return next(found, None)


def waiting_of(payer: str) -> Waiting:
    """What the payer of this key has in the queue; holds until the payer's row is unlocked."""
    rows = _GROUPS.rows(payer=payer)
    return Waiting(groups=tuple(_Group(profile=p, priority=q, number=n, last_turn=last) for p, q, n, last in rows))


_GROUPS = KeptStatement(
    lambda: (
        Evaluation.objects.filter(state__in=State.unfinished(), payer=Given("payer", CharField()))
        .order_by()
        .values_list("profile", "priority")
        .annotate(number=Count("pk"), last_turn=Max("turn"))
    )
)
