"""One trial: load and failures for some minutes, then load's end without failures, then the comparison."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tools.chaos.disorder import Disorder
from tools.chaos.load import CallerLog, Load, Pace
from tools.chaos.reconciliation import UNFINISHED, Reconciliation, reconcile, tracebacks
from tools.chaos.site import DISPATCHERS, ChaosSite, chaos_site

_ANSWERED_S = 120
_SETTLED_S = 900


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """How long, how many nodes, how much load, how often something happens, how bad the proxy is.

    What happens is drawn from `seed`; when it happens depends on the machine as well.
    """

    seed: int
    minutes: float
    nodes: int = 16
    pace: Pace = field(default_factory=Pace)
    every_s: float = 4.0
    harm: float = 0.04


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What happened, what was accepted, how long it took to end in peace, and what was found."""

    happened: Counter[str]
    caller_log: CallerLog
    settled_s: float
    found: Reconciliation
    tracebacks: Counter[str]


def run(wishes: Wishes, folder: Path, *, say: Callable[[str], None] = lambda _text: None) -> Trial:
    """Everything from an empty `folder` to the comparison; no process is left."""
    with chaos_site(folder, harm=wishes.harm, seed=wishes.seed) as site:
        *tokens, vendor = site.prepare(people=wishes.pace.people, nodes=wishes.nodes)
        for name in ("web", *DISPATCHERS, *site.nodes):
            site.start(name)
        say("everything is started")
        load = Load(f"127.0.0.1:{site.stack.port}", tokens, vendor=vendor, pace=wishes.pace, seed=wishes.seed)
        load.start()
        disorder = Disorder(site, seed=wishes.seed, every_s=wishes.every_s, say=say)
        disorder.run(60 * wishes.minutes)
        say("everything is back")
        began = time.monotonic()
        load.finish(seconds=_ANSWERED_S)
        _wait_for_peace(site, until=began + _SETTLED_S)
        settled_s = time.monotonic() - began
        say(f"quiet after {settled_s:.0f} s")
        return Trial(
            happened=disorder.happened + site.to_web.happened,
            caller_log=load.caller_log,
            settled_s=settled_s,
            found=reconcile(site, load.caller_log),
            tracebacks=tracebacks(site),
        )


def _wait_for_peace(site: ChaosSite, *, until: float) -> None:
    while site.rows(UNFINISHED) != [(0,)] and time.monotonic() < until:
        time.sleep(1)
