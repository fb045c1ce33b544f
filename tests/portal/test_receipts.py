"""The site says to a node that its report has arrived: else the node sends it again."""

import hashlib

import msgspec
import pytest

from evaluator.contract import Receipt, TaskName, Verdict, node_queue
from portal.celery import app
from portal.submissions import tasks
from portal.submissions.models import Report, State
from tests.portal.conftest import NODE_KEY
from tests.portal.factories import delivery_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def received():
    """Asks which receipts the node has been sent since it was asked last."""

    def receipts() -> list[Receipt]:
        found = []
        with app.connection_for_read() as connection:
            queue = connection.SimpleQueue(node_queue("alpha"))
            while True:
                try:
                    message = queue.get(block=False)
                except queue.Empty:
                    return found
                message.ack()
                if message.headers["task"] == TaskName.RECEIPT:
                    found.append(Receipt.from_json(message.payload[0][0]))

    receipts()  # other tests share the broker
    return receipts


def receipt_for(text: str) -> Receipt:
    return Receipt(sha256=hashlib.sha256(text.encode()).hexdigest())


def test_a_report_has_its_receipt_each_time_that_it_comes(leased, received):
    """The receipt may be lost with the broker; a report that comes again changes nothing."""
    text = delivery_of(leased, verdict=Verdict.WRONG_RESULT).to_json()
    for _ in range(2):
        tasks.record_delivery(text, NODE_KEY)
        assert received() == [receipt_for(text)]
    leased.refresh_from_db()
    assert (leased.state, leased.verdict, Report.objects.count()) == (State.FINISHED, "WRONG_RESULT", 1)


def test_a_report_that_counts_no_longer_has_a_receipt(leased, received):
    text = msgspec.structs.replace(delivery_of(leased), lease="of an earlier try").to_json()
    tasks.record_delivery(text, NODE_KEY)
    assert received() == [receipt_for(text)]
    assert not Report.objects.exists()


def test_who_has_not_the_nodes_key_sends_it_no_receipts(leased, received):
    """Else a stranger to the node could fill its queue."""
    tasks.record_delivery(delivery_of(leased).to_json(), "another key")
    tasks.record_delivery(msgspec.structs.replace(delivery_of(leased), node="unknown").to_json(), NODE_KEY)
    assert received() == []
