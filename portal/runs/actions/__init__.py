"""Every write to models, runs and attempts."""

from portal.runs.actions.adding import BulkResult, LineResult, add_attempt, add_lines
from portal.runs.actions.creating import RunWishes, create_run, publish_run
from portal.runs.actions.deciding import decide
from portal.runs.actions.importing import ImportResult, import_tree
from portal.runs.actions.telling import deliver_due
from portal.runs.actions.webhooks import add_webhook, remove_webhook, send_again, try_webhook

__all__ = [
    "BulkResult",
    "ImportResult",
    "LineResult",
    "RunWishes",
    "add_attempt",
    "add_lines",
    "add_webhook",
    "create_run",
    "decide",
    "deliver_due",
    "import_tree",
    "publish_run",
    "remove_webhook",
    "send_again",
    "try_webhook",
]
