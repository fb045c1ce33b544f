"""What judges, and what waits."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from evaluator.hardware.profiles import profiles
from portal.nodes.queries import shown_nodes
from portal.submissions.node_utilisation import use_of_nodes
from portal.submissions.queue import queue_lengths


@require_safe
def status(request: HttpRequest) -> HttpResponse:
    """Nodes with their slots, and queues by profile."""
    context = {
        "nodes": shown_nodes(),
        "queues": queue_lengths(),
        "uses": use_of_nodes(),
        "profiles": profiles(),
    }
    return render(request, "nodes/status.html", context)
