"""One of several dispatchers that start at the same moment; prints what it sent. Run by test_dispatch_race.py.

It says when it is ready and waits for a line. Nothing is sent to a broker: sending is what is counted.
"""

import sys

import django

django.setup()

from django.utils import timezone  # noqa: E402 - after the set-up

from evaluator.contract import Assignment  # noqa: E402
from portal.dispatcher.assign import dispatch_once  # noqa: E402
from portal.dispatcher.leases import sweep  # noqa: E402


def send(node: str, assignment: Assignment, *, valid_for_s: int) -> None:
    """Print instead of sending."""
    assert valid_for_s > 0
    print(node, assignment.slot, assignment.request.evaluation_id, assignment.lease)  # noqa: T201


sweep(timezone.now())  # opens the connection and loads what is loaded once
print("ready", flush=True)  # noqa: T201
sys.stdin.readline()
while dispatch_once(timezone.now(), send=send):
    pass
