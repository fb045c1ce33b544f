"""What the site's worker accepts of a message: one of our tasks and its argument, and nothing that Celery does besides.

A Celery message may name further tasks to send when it has run, to any queue. The worker would send them with the
site's rights, so a node whose machine was taken over could give work to other nodes. Nodes send none of that.
"""

import logging
from collections.abc import Callable
from typing import Any

from celery import Celery, Task
from celery.exceptions import InvalidTaskError, Reject
from celery.worker.strategy import default

from portal.database_away import RETRY_AFTER_S, AwayLines, is_database_away

logger = logging.getLogger(__name__)

_lines = AwayLines(logger)

Handler = Callable[..., None]


class PlainTask(Task):  # type: ignore[type-arg]  # Celery's class takes its parameters in stubs only
    """The class of all tasks of the site's application."""

    Strategy = "portal.plain_messages:plain_only"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the task. In a worker, a message that met no database is dropped with a line instead of a traceback.

        Nodes repeat heartbeats and progress. A report is not dropped: its task has `autoretry_for`, which raises
        Celery's own `Retry`. Classes cannot name a connection that broke in the middle of an answer (psycopg2's plain
        `DatabaseError`). Such a report gets another try here.
        """
        try:
            return self.run(*args, **kwargs)
        except Exception as error:
            if self.request.called_directly or not is_database_away(error):
                raise
            if getattr(self, "autoretry_for", ()):
                raise self.retry(exc=error, countdown=RETRY_AFTER_S) from error
            _lines.note(f"{self.name} is dropped", error)
        return None

    def retry(self, *args: Any, **kwargs: Any) -> Any:
        """As Celery's, which sends the message again for another try and drops it where the broker takes none.

        Here that message stays with the broker, which delivers it again.
        """
        try:
            return super().retry(*args, **kwargs)
        except Reject as refused:
            reason = refused.args[0]
            logger.warning("%s stays with the broker, which takes no message: %s", self.name, reason)
            raise Reject(reason, requeue=True) from refused


def plain_only(task: Task[Any, Any], app: Celery, consumer: Any, **options: Any) -> Handler:
    """Celery's own way of taking a message, after a look at it; an improper one is logged and thrown away."""
    take = default(task, app, consumer, **options)

    def checked(message: Any, body: Any, *rest: Any, **further: Any) -> None:
        refuse_unless_plain(task, message, body)
        take(message, body, *rest, **further)

    return checked


def refuse_unless_plain(task: Task[Any, Any], message: Any, body: Any) -> None:
    """Look at a message; raises InvalidTaskError where it is more than one of our tasks and its argument."""
    if not task.name.startswith("portal."):
        raise InvalidTaskError(f"{task.name} is not for messages")
    if body is not None or not _is_plain(message):
        raise InvalidTaskError(f"{task.name} came with more than its argument")


def _is_plain(message: Any) -> bool:
    match message.payload:
        case [list(), dict(), dict() as further]:
            return not any(further.values()) and not any(message.headers.get("timelimit") or ())
    return False
