"""The queue: who goes before whom, whose turn it is, and where an evaluation waits.

People's submissions go first, then runs, then what an operator has judged again. Within a priority payers take turns at
a profile, one evaluation each, however much each of them has queued: every evaluation gets the number of its turn when
it is queued (start-time fair queueing). A payer with nothing queued starts at the turn that is being judged; others
continue from their last one.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median
from typing import Any

from django.db.models import Count, F, Max, Q, QuerySet
from django.utils import timezone

from evaluator.contract import Backend, SlotState, Stage
from evaluator.hardware.profiles import Profile, profiles
from portal.catalog.queries import paused_problems, paused_slugs
from portal.nodes.models import Slot
from portal.nodes.queries import online_slots, slots_of_online_nodes
from portal.submissions.models import Evaluation, ProfileState, Report, State

BULK_PRIORITY = -1
"""Runs wait for people: a person's submission goes before hundreds of attempts."""
REJUDGE_PRIORITY = -2

_RECENT = 20


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """A payer's unfinished evaluations: by profile and priority how many, and the last turn of these."""

    groups: Mapping[tuple[str, int], tuple[int, int]]

    def counted(self, profile: str = "") -> int:
        """How many count against a limit of `profile`, or of all together; an operator's rejudges do not."""
        own = ((name, number) for (name, priority), (number, _) in self.groups.items() if priority != REJUDGE_PRIORITY)
        return sum(number for name, number in own if profile in ("", name))

    def next_turn(self, *, profile: str, priority: int) -> int:
        """The turn of the payer's next evaluation; further ones take those after it.

        Runs while the payer's row is locked, so that two requests do not take the same turn.
        """
        _, last = self.groups.get((profile, priority), (0, -1))
        judged = ProfileState.objects.filter(profile=profile).values_list("turn", flat=True).first()
        return max(judged or 0, last + 1)


def waiting_of(payer: str) -> Waiting:
    """What the payer of this key has in the queue; holds until the payer's row is unlocked."""
    unfinished = Evaluation.objects.filter(state__in=State.unfinished(), payer=payer).order_by()
    rows = unfinished.values_list("profile", "priority").annotate(Count("pk"), Max("turn"))
    return Waiting(groups={(profile, priority): (number, last) for profile, priority, number, last in rows})


def note_turn(evaluation: Evaluation) -> None:
    """A slot has taken `evaluation`: who comes next comes in at its turn. Turns never go back."""
    moved = ProfileState.objects.filter(profile=evaluation.profile, turn__lt=evaluation.turn)
    if not moved.update(turn=evaluation.turn):
        ProfileState.objects.get_or_create(profile=evaluation.profile, defaults={"turn": evaluation.turn})


def queue_order(profile: str, *, owner_id: int | None = None) -> QuerySet[Evaluation]:
    """What waits for a slot of `profile` of the site's own nodes or of a guest's, in the order of being taken.

    Paused problems are left out.
    """
    return _moving(_waiting(profile, owner_id)).order_by("-priority", "turn", "queued_at", "id")


def _waiting(profile: str, owner_id: int | None) -> QuerySet[Evaluation]:
    return Evaluation.objects.filter(profile=profile, node_owner=owner_id, state__in=State.waiting())


def _moving(waiting: QuerySet[Evaluation]) -> QuerySet[Evaluation]:
    paused = ProfileState.objects.filter(is_paused=True)
    return waiting.exclude(submission__problem__in=paused_slugs()).exclude(profile__in=paused.values("profile"))


def paused_profiles() -> dict[str, str]:
    """The profiles whose queue an operator has paused (work is taken and waits), each with the operator's reason."""
    paused = ProfileState.objects.filter(is_paused=True)
    return {profile: note.strip() for profile, note in paused.values_list("profile", "note")}


@dataclass(frozen=True, kw_only=True)
class QueuePosition:
    """The position of a queued evaluation: how many are ahead, how many wait in all, and the expected wait.

    `expected_wait_s` is None where no slot is online, none can judge it or nothing was judged on the profile yet.
    `unable_since` is the time since which no online node can judge it, None where one can. `pause_reason` is what the
    operator says of a pause, which may be nothing.
    """

    ahead: int
    total: int
    expected_wait_s: float | None
    is_paused: bool
    has_node: bool
    unable_since: datetime | None = None
    pause_reason: str = ""


def position_in_queue(evaluation: Evaluation) -> QueuePosition | None:
    """The queue position of an evaluation that waits for a slot; None once it has one."""
    if evaluation.state not in State.waiting():
        return None
    # What is paused has a note, which may be empty.
    problems = dict(paused_problems().values_list("slug", "note"))
    problem, queue = problems.get(evaluation.submission.problem), paused_profiles().get(evaluation.profile)
    is_paused = problem is not None or queue is not None
    # Nothing of a paused queue is next.
    total, before = _counts(evaluation, is_any_paused=bool(problems)) if queue is None else (0, 0)
    ahead = total if is_paused else before
    slots = online_slots(profile=evaluation.profile, owner_id=evaluation.node_owner_id).count()
    will_not_move = is_paused or evaluation.unable_since is not None
    return QueuePosition(
        ahead=ahead,
        total=total,
        expected_wait_s=None if will_not_move else _expected_wait_s(evaluation, ahead=ahead, slots=slots),
        is_paused=is_paused,
        has_node=slots > 0,
        unable_since=evaluation.unable_since,
        pause_reason=" ".join(note.strip() for note in (problem, queue) if note and note.strip()),
    )


def _counts(evaluation: Evaluation, *, is_any_paused: bool) -> tuple[int, int]:
    """How many wait in the queue of `evaluation`, and how many of them go before it, as in `queue_order`."""
    earlier = Q(queued_at__lt=evaluation.queued_at) | Q(queued_at=evaluation.queued_at, pk__lt=evaluation.pk)
    before = Q(turn__lt=evaluation.turn) | (Q(turn=evaluation.turn) & earlier)
    goes_before = Q(priority__gt=evaluation.priority) | (Q(priority=evaluation.priority) & before)
    waiting = _waiting(evaluation.profile, evaluation.node_owner_id)
    # Problems are seldom paused, and to count without them reads the submission of everything that waits.
    counted = _moving(waiting) if is_any_paused else waiting
    # The database counts, and once: a run puts hundreds of evaluations into the queue, and everybody in it asks.
    found = counted.aggregate(total=Count("pk"), ahead=Count("pk", filter=goes_before))
    return found["total"], found["ahead"]


def _expected_wait_s(evaluation: Evaluation, *, ahead: int, slots: int) -> float | None:
    if not slots:
        return None
    profile, owner_id = evaluation.profile, evaluation.node_owner_id
    times = recently_judged(profile, owner_id).values_list("started_at", "finished_at")[:_RECENT]
    durations = [(end - start).total_seconds() for start, end in times if start is not None and end is not None]
    if not durations:
        return None
    running = Evaluation.objects.filter(profile=profile, node_owner=owner_id, state__in=State.in_a_slot()).count()
    return median(durations) * (ahead + running) / slots


def recently_judged(profile: str, owner_id: int | None) -> QuerySet[Evaluation]:
    """The evaluations of `profile` that finished lately in a slot of one owner's nodes; None for the site's.

    In the order of the queue's index: there may be millions. What a compiler ended was in none: it begins and ends at
    one moment.
    """
    finished = Evaluation.objects.filter(profile=profile, node_owner=owner_id, state=State.FINISHED)
    return finished.exclude(started_at=None).exclude(started_at=F("finished_at")).order_by("priority", "-queued_at")


@dataclass(frozen=True, kw_only=True)
class Capability:
    """What a profile can judge on this site at this moment; `backends` is empty while no slot is online.

    `served_at` is when a node could last take work of it, by what the site knows. `trouble` is why a slot of an online
    node takes no work, in the node's words.
    """

    profile: Profile
    slots: int
    backends: tuple[Backend, ...]
    is_paused: bool = False
    pause_reason: str = ""
    served_at: datetime | None = None
    trouble: str = ""

    @property
    def is_online(self) -> bool:
        return self.slots > 0


@dataclass(frozen=True, kw_only=True)
class Queue(Capability):
    """The same with what waits for the profile, what of it is compiled, and what is being judged."""

    waiting: int
    built: int
    running: int


def queue_lengths() -> list[Queue]:
    """The queues of all profiles that have a slot or work, in the order of the profiles."""
    unfinished = Evaluation.objects.filter(node_owner=None, state__in=State.unfinished()).order_by()
    counted = unfinished.values("profile").annotate(
        waiting=Count("id", filter=Q(state__in=State.waiting())),
        built=Count("id", filter=Q(state=State.BUILT)),
        running=Count("id", filter=Q(state__in=State.in_a_slot())),
    )
    counts = {row["profile"]: row for row in counted}
    numbers = {name: counts.get(name, {"waiting": 0, "built": 0, "running": 0}) for name in profiles()}
    queues = [Queue(**{**numbers[name], **vars(able)}) for name, able in capabilities().items()]
    return [queue for queue in queues if queue.slots or queue.is_paused or queue.profile.name in counts]


def capabilities() -> dict[str, Capability]:
    """What every profile can judge now, by name: those of its backends that an online node has."""
    slots: Counter[str] = Counter()
    offered: dict[str, set[str]] = {}
    troubles: dict[str, str] = {}
    paused = paused_profiles()
    served = dict(ProfileState.objects.values_list("profile", "served_at"))
    for slot in slots_of_online_nodes().filter(node__owner=None):
        if slot.state == SlotState.QUARANTINED:
            troubles[slot.profile] = slot.note
        if slot.state in (SlotState.QUARANTINED, SlotState.STOPPED):
            continue
        slots[slot.profile] += 1
        offered.setdefault(slot.profile, set()).update(slot.node.backends)
    return {
        name: Capability(
            profile=profile,
            slots=slots[name],
            backends=tuple(backend for backend in profile.backends if backend in offered.get(name, ())),
            is_paused=name in paused,
            pause_reason=paused.get(name, ""),
            served_at=served.get(name),
            trouble=troubles.get(name, ""),
        )
        for name, profile in profiles().items()
    }


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
