"""Two programs of one vendor at the same time: the same lines at the same time, and an upload while the run is
published."""

from threading import Barrier, Thread

import pytest
from django.db import connection

from portal.core.errors import Refusal
from portal.runs import actions
from portal.runs.models import Attempt
from portal.submissions.models import GpuUse, Submission
from tests.portal.runs.rows import add, end, line, make_run

pytestmark = pytest.mark.django_db(transaction=True)


def together(*jobs):
    """What the jobs return when they start at the same moment; a refusal is returned too."""
    start, results = Barrier(len(jobs)), [None] * len(jobs)

    def work(number, job):
        start.wait()
        try:
            results[number] = job()
        except Refusal as refusal:
            results[number] = refusal
        finally:
            connection.close()

    threads = [Thread(target=work, args=pair) for pair in enumerate(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_the_same_lines_from_two_connections_are_stored_once(alice):
    run = make_run(alice, profile="h200x8-nomc")
    wanted = [line(sample=number) for number in range(60)]
    one, two = together(lambda: add(run, *wanted), lambda: add(run, *wanted))
    assert one.counts["created"] + two.counts["created"] == 60
    assert one.counts["repeated"] + two.counts["repeated"] == 60
    assert Attempt.objects.count() == Submission.objects.count() == GpuUse.objects.count() == 60


def test_nothing_gets_into_a_run_that_is_published_at_this_moment(alice, node):
    run = make_run(alice)
    end(add(run, line()).results[0].attempt, node)
    published, added = together(
        lambda: actions.publish_run(run, by=alice, sources="public"), lambda: add(run, line(sample=1))
    )
    run.refresh_from_db()
    if isinstance(added, Refusal):
        assert run.is_published
        assert run.attempts.count() == 1
    else:
        assert isinstance(published, Refusal)
        assert not run.is_published


def test_two_calls_with_one_key_make_one_run(alice):
    declaration = actions.RunDeclaration(model="writer", mode="single_shot", profile="cpux2")
    make = lambda: actions.create_run(alice, declaration, idempotency_key="k")  # noqa: E731 - twice the same
    one, two = together(make, make)
    assert one.pk == two.pk
