"""Serving endpoints without the worker's threads."""

from datetime import datetime

from portal.deliveries.sending import deliver_batch, due_endpoints


def deliver_due(now: datetime) -> int:
    """Serve every endpoint that is due, one after another; returns how many tries that took."""
    return sum(deliver_batch(endpoint, now) for endpoint in due_endpoints(now, limit=1000))
