"""The events that this app sends to the apps above it."""

from portal.core.hooks import Hook
from portal.submissions.models import Evaluation, Quarantine

evaluation_queued: Hook[Evaluation] = Hook()
"""An author has asked for an evaluation: its row, with its submission. What operators have judged again is not sent.

Sent inside the transaction that stores the author's request."""

evaluation_ended: Hook[Evaluation] = Hook()
"""An evaluation has ended: its final row. Sent inside the transaction that ends it."""

quarantine_changed: Hook[Quarantine] = Hook()
"""An entry was put into quarantine, by an operator or a rejudge, or an operator has lifted it: its row.

Sent inside the transaction in which it is decided; the submission's row is locked."""
