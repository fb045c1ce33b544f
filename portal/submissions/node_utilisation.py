"""How much of the last hour nodes judged, and what kept them from it."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import datetime, timedelta
from statistics import median
from typing import Any

from django.db.models import F, Q, QuerySet
from django.utils import timezone

from evaluator.contract import Stage
from portal.nodes.models import Slot
from portal.submissions.models import Evaluation, Report, State

WINDOW = timedelta(hours=1)
_REPORTS = 100
"""The stages are read from this many reports of the hour: each is a document of some hundred kilobytes."""

_Place = tuple[str, str]


def use_of_nodes(*, now: datetime | None = None) -> list[dict[str, Any]]:
    """The use of every node's slots by node and profile.

    `judged_share` is the share of the hour in which a slot had an evaluation, 0 to 1, on average over the slots.
    `verdicts` are those of slots in the hour, without those decided at compilation. `building` and `built` are
    evaluations that are being compiled for it, and that wait compiled, now. `starting_s` is how long evaluations took
    until ranks had imported them, in seconds at the median; None where none was judged. `ranks_wait_s` is how long
    everything waited for ranks to start, in the same way; None where no report says so.
    """
    moment = now or timezone.now()
    slots = Counter(Slot.objects.order_by("node__name", "index").values_list("node__name", "profile"))
    judged_s, verdicts = _judged(moment)
    # At most a few of each slot.
    compiled = Evaluation.objects.filter(state__in=(State.BUILDING, State.BUILT), node__isnull=False).order_by()
    ahead = Counter(compiled.values_list("node__name", "profile", "state"))
    starting, waits = _starting_times(moment)
    return [
        {
            "node": node,
            "profile": profile,
            "slots": number,
            "judged_share": min(1.0, judged_s[node, profile] / (WINDOW.total_seconds() * number)),
            "verdicts": verdicts[node, profile],
            "building": ahead[node, profile, State.BUILDING],
            "built": ahead[node, profile, State.BUILT],
            "starting_s": _median(starting[node, profile]),
            "ranks_wait_s": _median(waits[node, profile]),
        }
        for (node, profile), number in slots.items()
    ]


def _in_slots(now: datetime) -> QuerySet[Evaluation]:
    """What was in a slot in the hour. What a compiler ended never was: it begins and ends at one moment."""
    return (
        Evaluation.objects.filter(node__isnull=False, started_at__isnull=False)
        .filter(Q(finished_at__gt=now - WINDOW) | Q(state__in=State.in_a_slot()))
        .exclude(started_at=F("finished_at"))
    )


def _judged(now: datetime) -> tuple[Mapping[_Place, float], Mapping[_Place, int]]:
    seconds: defaultdict[_Place, float] = defaultdict(float)
    verdicts: Counter[_Place] = Counter()
    rows = _in_slots(now).values_list("node__name", "profile", "started_at", "finished_at", "state")
    for node, profile, started, finished, state in rows.iterator():
        assert started is not None, "only those that began are asked for"
        seconds[node, profile] += ((finished or now) - max(started, now - WINDOW)).total_seconds()
        verdicts[node, profile] += state == State.FINISHED
    return seconds, verdicts


def _median(seconds: list[float]) -> float | None:
    return median(seconds) if seconds else None


def _starting_times(now: datetime) -> tuple[Mapping[_Place, list[float]], Mapping[_Place, list[float]]]:
    """Seconds in the stage that starts ranks, and of waiting for them, of the latest reports, by node and profile."""
    latest = (
        _in_slots(now).filter(state=State.FINISHED).order_by("-finished_at").values_list("pk", flat=True)[:_REPORTS]
    )
    rows = Report.objects.filter(evaluation__in=list(latest)).values_list(
        "evaluation__node__name", "evaluation__profile", "content__stages", "content__ranks_wait_s"
    )
    starting: defaultdict[_Place, list[float]] = defaultdict(list)
    waits: defaultdict[_Place, list[float]] = defaultdict(list)
    for node, profile, stages, wait_s in rows:
        starting[node, profile] += [item["seconds"] for item in stages or () if item["stage"] == Stage.STARTING.value]
        if wait_s is not None:
            waits[node, profile].append(wait_s)
    return starting, waits
