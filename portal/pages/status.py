"""What judges, and what waits."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from evaluator.hardware.profiles import profiles
from portal.accounts.models import User
from portal.nodes.queries import shown_nodes
from portal.submissions.node_utilisation import use_of_nodes
from portal.submissions.queries import own_positions
from portal.submissions.queue import queue_lengths


@require_safe
def status(request: HttpRequest) -> HttpResponse:
    """Nodes with their slots, queues by profile, and the reader's own work in progress."""
    context = {
        "nodes": shown_nodes(),
        "queues": queue_lengths(),
        "uses": use_of_nodes(),
        "profiles": profiles(),
        "own": own_positions(request.user) if isinstance(request.user, User) else (),
    }
    return render(request, "nodes/status.html", context)
