"""What happens to the site: kills, drains, cuts, freezes, switches, and that everything comes back."""

import heapq
import random
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from psycopg2 import OperationalError

from tools.chaos.site import DISPATCHERS, ChaosSite, drawn

_WEIGHTS = {
    "kill web": 6,
    "kill dispatcher": 3,
    "kill broker": 2,
    "kill PostgreSQL": 2,
    "kill node": 8,
    "drain node": 4,
    "cut node off": 6,
    "freeze node": 3,
    "switch node off": 2,
    "freeze dispatcher": 1,
    "freeze web": 1,
}


class Disorder:
    """Draws what happens next and lets everything come back after a while.

    `happened` counts by kind. A part is in at most one trouble at a time, and two nodes are never touched, so that
    some work is done in the middle of all.
    """

    def __init__(self, site: ChaosSite, *, seed: int, every_s: float, say: Callable[[str], None]) -> None:
        self.happened: Counter[str] = Counter()
        self._site, self._every_s, self._say = site, every_s, say
        self._draw = random.Random(f"{seed} disorder")
        self._away: set[str] = set()
        self._due: list[tuple[float, int, str, Callable[[], object]]] = []
        self._numbers = iter(range(1_000_000))

    def run(self, seconds: float) -> None:
        """Let things happen for so long, then bring everything back."""
        end = time.monotonic() + seconds
        next_at = time.monotonic()
        while time.monotonic() < end:
            self._come_back(time.monotonic())
            if time.monotonic() >= next_at:
                self._happen()
                next_at = time.monotonic() + self._draw.expovariate(1 / self._every_s)
            time.sleep(0.1)
        self._come_back(float("inf"))

    def _come_back(self, until: float) -> None:
        while self._due and self._due[0][0] <= until:
            _, _, name, back = heapq.heappop(self._due)
            back()
            self._away.discard(name)

    def _later(self, name: str, back: Callable[[], object], *, least: float, most: float) -> None:
        self._away.add(name)
        at = time.monotonic() + self._draw.uniform(least, most)
        heapq.heappush(self._due, (at, next(self._numbers), name, back))

    def _happen(self) -> None:
        what = drawn(self._draw, _WEIGHTS)
        name = self._somebody(what.split()[1])
        if name is None:
            return
        self.happened[what] += 1
        self._say(f"{what}: {name}")
        verb = what.split()[0]
        {
            "kill": self._kill,
            "drain": self._drain,
            "cut": self._cut,
            "freeze": self._freeze,
            "switch": self._switch,
        }[verb](name)

    def _somebody(self, kind: str) -> str | None:
        if kind in ("web", "broker", "PostgreSQL"):
            choices = [kind]
        elif kind == "dispatcher":
            choices = list(DISPATCHERS)
        else:
            choices = self._site.nodes[:-2] if len(self._site.nodes) > 4 else self._site.nodes
        free = [name for name in choices if name not in self._away]
        return self._draw.choice(free) if free else None

    def _kill(self, name: str) -> None:
        self._site.kill(name)
        most = 20 if name in self._site.nodes else 6
        self._later(name, lambda: self._site.start(name), least=0.2, most=most)

    def _drain(self, name: str) -> None:
        # In a stop by its operator a node gives its work back before it ends.
        with suppress(OSError):
            self._site.stack.stop(name, seconds=60)
        self._later(name, lambda: self._site.start(name), least=0.5, most=10)

    def _cut(self, name: str) -> None:
        # As often from the one as from the other as from both.
        ways = self._draw.choice(
            ([self._site.to_broker], [self._site.to_web], [self._site.to_broker, self._site.to_web])
        )
        for way in ways:
            way.cut(name)
        self._later(name, lambda: [way.mend(name) for way in ways], least=1, most=25)

    def _freeze(self, name: str) -> None:
        self._site.stack.pause(name)
        self._later(name, lambda: self._site.stack.resume(name), least=1, most=20)

    def _switch(self, name: str) -> None:
        self._switch_to(name, is_on=False)
        self._later(name, lambda: self._switch_to(name, is_on=True), least=2, most=15)

    def _switch_to(self, name: str, *, is_on: bool) -> None:
        """As in the admin; while the database is away there is no admin, and at the end it is asked until it is."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                self._site.execute("UPDATE nodes_node SET is_enabled = %s WHERE name = %s", is_on, name)
            except OperationalError:
                if not is_on:
                    return
                time.sleep(0.2)
            else:
                return
