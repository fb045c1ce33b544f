"""Every write to submissions and evaluations; state moves are in `portal.submissions.lifecycle`."""

from portal.submissions.actions.bulk import (
    confirm_here,
    publish_sources,
    rejudge,
    rejudge_and_refund,
    store_sources,
    submit_attempts,
)
from portal.submissions.actions.moderate import flag, lift_quarantine, quarantine, resolve_flags
from portal.submissions.actions.record import outcome_of, receive_delivery, receive_progress, record_delivery
from portal.submissions.actions.submit import (
    SubmissionResult,
    annotate,
    cancel_evaluation,
    clear_notes,
    create_submission,
    free_notes,
    open_sources,
    queue_evaluation,
    set_visibility,
)
