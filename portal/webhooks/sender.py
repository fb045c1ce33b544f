"""The webhook sender: threads of the dispatcher that deliver, bounded in total and per account."""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Collection
from datetime import datetime
from typing import Generic, Protocol, TypeVar

from django.db import DatabaseError, InterfaceError, close_old_connections, connection
from django.utils import timezone

from portal.database_away import AwayLines

AT_ONCE = 16
"""The receivers that a process serves at the same time."""
PER_ACCOUNT = 4
"""How many of these may be of one account's organisations: slow receivers of one vendor leave room for the others."""
LOOK_EVERY_S = 1.0
logger = logging.getLogger(__name__)


class Due(Protocol):
    """A turn of one receiver: its key, and the account that pays for the turn."""

    @property
    def key(self) -> int:
        """The far end's number."""

    @property
    def account(self) -> int:
        """On whose behalf."""


AnyTurn = TypeVar("AnyTurn", bound=Due)


class DueTurns(Protocol[AnyTurn]):
    """What finds the turns that are due; see `portal.webhooks.delivering.due_turns`."""

    def __call__(
        self, now: datetime, *, limit: int, without: Collection[int] = (), busy: Collection[int] = ()
    ) -> list[AnyTurn]:
        """The turns that are due at `now`."""


class TurnSender(Generic[AnyTurn]):
    """Gives receivers their turns until stopped: `due` finds them, `take` carries one out."""

    def __init__(self, due: DueTurns[AnyTurn], take: Callable[[AnyTurn, datetime], object]) -> None:
        self._due = due
        self._take_turn = take
        self._turns: dict[int, int] = {}
        self._changed = threading.Condition()
        self._away = AwayLines(logger)

    @property
    def is_busy(self) -> bool:
        """Whether any receiver is being served."""
        return bool(self._turns)

    def run(self, stop: threading.Event) -> None:
        """Look for what is due, every second and whenever a turn has ended."""
        while not stop.is_set():
            close_old_connections()
            try:
                self.look()
            except (DatabaseError, InterfaceError) as error:
                self._away.note("deliveries wait", error)
            with self._changed:
                self._changed.wait(LOOK_EVERY_S)

    def look(self) -> int:
        """Begin as many turns as there is room for; returns how many."""
        with self._changed:
            taken, counts = set(self._turns), Counter(self._turns.values())
        full = [account for account, count in counts.items() if count >= PER_ACCOUNT]
        begun, now = 0, timezone.now()
        # More than there is room for: the first may all be of one account.
        for turn in self._due(now, limit=10 * AT_ONCE, without=full, busy=taken):
            if len(taken) + begun < AT_ONCE and counts[turn.account] < PER_ACCOUNT:
                begun += 1
                counts[turn.account] += 1
                self._begin(turn)
        return begun

    def _begin(self, turn: AnyTurn) -> None:
        with self._changed:
            self._turns[turn.key] = turn.account
        # A daemon: the process ends without waiting for a receiver, and its claims expire.
        threading.Thread(target=self._take, args=(turn,), daemon=True).start()

    def _take(self, turn: AnyTurn) -> None:
        try:
            self._take_turn(turn, timezone.now())
        except (DatabaseError, InterfaceError) as error:
            self._away.note("a delivery waits", error)
        except Exception:
            # One receiver must not stop the deliveries to all others. Its claim expires.
            logger.exception("delivery to %s failed", turn.key)
        finally:
            connection.close()
            with self._changed:
                del self._turns[turn.key]
                self._changed.notify_all()
