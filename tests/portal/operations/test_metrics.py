"""Metrics of real processes, read as Prometheus reads them; what they must not show, and what they cost."""

import urllib.error
import urllib.request
from datetime import timedelta

import pytest
from django.db import OperationalError, connection
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from evaluator.contract import Verdict
from portal.core import metrics
from portal.dispatcher.assign import dispatch_once
from portal.operations.metrics_page import StateOfTheSite
from portal.submissions import actions
from portal.submissions.models import Evaluation, State
from tests.portal.factories import delivery_of, evaluation_of, submit

pytestmark = pytest.mark.production


def read(text):
    """Every sample by its name and labels."""
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(samples, name, **labels):
    return samples[(name, *sorted(labels.items()))]


def total(samples, name, **labels):
    """The sum over the samples that have these labels."""
    return sum(found for key, found in samples.items() if key[0] == name and labels.items() <= dict(key[1:]).items())


def state():
    """The gauges as if asked for now, not seconds ago."""
    families = StateOfTheSite().collect()
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value for family in families for sample in family.samples
    }


def test_every_process_counts_what_happened_to_the_submission(site):
    web = read(site.metrics("web"))
    dispatcher, node = read(site.metrics("dispatcher")), read(site.metrics("alpha"))
    assert value(web, "pkb_evaluations_queued_total", profile="cpux2", mode="check") == 1
    assert value(web, "pkb_evaluations_ended_total", profile="cpux2", verdict="PASSED") == 1
    assert value(web, "pkb_evaluation_wait_seconds_count", profile="cpux2") == 1
    assert value(web, "pkb_stage_seconds_count", profile="cpux2", stage="verifying") == 1
    assert value(web, "pkb_rank_seconds_total", profile="cpux2") > 0
    assert value(web, "pkb_heartbeats_total") > 0
    assert value(dispatcher, "pkb_dispatched_total", kind="judge") == 1
    assert value(dispatcher, "pkb_dispatcher_look_seconds_count") > 0
    assert value(node, "pkb_node_evaluations_ended_total", profile="cpux2", verdict="PASSED") == 1
    assert value(node, "pkb_node_slots", profile="cpux2", state="free") == 1
    assert value(node, "pkb_node_outbox_reports") == 0
    assert value(node, "pkb_node_site_up") == 1


def test_web_exposes_the_state_of_the_site(site):
    found = read(site.metrics("web"))
    assert value(found, "pkb_state_up") == 1
    assert value(found, "pkb_broker_up") == 1
    assert value(found, "pkb_broker_messages", queue="node.alpha") == 0
    assert value(found, "pkb_node_online", node="alpha") == 1
    assert value(found, "pkb_slots", node="alpha", profile="cpux2", state="free") == 1
    assert value(found, "pkb_queue_oldest_seconds", profile="cpux2", kind="people") == 0
    assert value(found, "pkb_leases") == 0


def test_requests_to_several_web_processes_are_counted_together(site):
    labels = {"method": "GET", "route": "healthz", "status": "200"}
    before = total(read(site.metrics("web")), "pkb_http_request_seconds_count", **labels)
    for _ in range(20):
        # A connection each: both web processes take some of them.
        urllib.request.urlopen(f"{site.stack.url}/healthz", timeout=30).close()
    assert total(read(site.metrics("web")), "pkb_http_request_seconds_count", **labels) == before + 20


def test_the_public_port_has_no_metrics(site):
    for headers in ({}, {"Host": f"127.0.0.1:{site.ports['web']}"}, {"X-Forwarded-Port": str(site.ports["web"])}):
        request = urllib.request.Request(f"{site.stack.url}/metrics", headers=headers)
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=30)
        assert refused.value.code == 404
        assert b"pkb_" not in refused.value.read().replace(b"pkb_theme", b"")


def test_the_metrics_port_has_nothing_but_metrics(site):
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"http://127.0.0.1:{site.ports['web']}/problems/", timeout=30)
    assert refused.value.code == 404
    assert refused.value.read() == b"Metrics are at /metrics.\n"


def test_metrics_name_neither_people_nor_sources_nor_submissions(site):
    told = "".join(site.metrics(name) for name in site.ports)
    for secret in ("secretive", site.submission["id"], site.request_id, site.token, "allreduce"):
        assert secret not in told


def test_addresses_and_methods_that_visitors_make_up_become_no_labels(client, db):
    before = {key for key in read(_counts()) if key[0] == "pkb_http_request_seconds_count"}
    for number in range(30):
        client.get(f"/no/such/page-{number}/")
        client.get(f"/problems/made-up-{number}/")
        client.generic(f"MADEUP{number}", "/problems/")
    new = {key for key in read(_counts()) if key[0] == "pkb_http_request_seconds_count"} - before
    assert len(new) <= 3, new
    assert not any("made" in str(key).lower() for key in new)


def _counts():
    return generate_latest(metrics.registry()).decode()


def test_the_age_of_the_queue_is_that_of_the_oldest_waiting_of_its_kind(alice, bob, node, now, later):
    oldest, bulk = evaluation_of(submit(alice)), evaluation_of(submit(bob))
    Evaluation.objects.filter(pk=oldest.pk).update(queued_at=now - timedelta(seconds=500))
    Evaluation.objects.filter(pk=bulk.pk).update(queued_at=now - timedelta(seconds=9000), priority=-1)
    found = state()
    assert value(found, "pkb_queue_depth", profile="cpux2", kind="people", state="queued") == 1
    assert value(found, "pkb_queue_oldest_seconds", profile="cpux2", kind="people") == pytest.approx(500, abs=60)
    assert value(found, "pkb_queue_oldest_seconds", profile="cpux2", kind="bulk") == pytest.approx(9000, abs=60)


def test_leases_that_ran_out_are_overdue(alice, node, now):
    evaluation = evaluation_of(submit(alice))
    dispatch_once(now, send=lambda *_, **__: None)
    found = state()
    assert (value(found, "pkb_leases"), value(found, "pkb_leases_overdue")) == (1, 0)
    Evaluation.objects.filter(pk=evaluation.pk).update(lease_expires_at=now - timedelta(seconds=1))
    assert value(state(), "pkb_leases_overdue") == 1


@pytest.mark.django_db(transaction=True)
def test_failures_of_ours_are_counted_apart_from_verdicts(alice, node, now):
    def failed():
        return read(_counts()).get(("pkb_failed_tries_total", ("profile", "cpux2"), ("reason", "JUDGE_FAILURE")), 0)

    before = failed()
    evaluation = evaluation_of(submit(alice))
    dispatch_once(now, send=lambda *_, **__: None)
    assert actions.record_delivery(delivery_of(evaluation, verdict=Verdict.JUDGE_FAILURE), now)
    assert failed() == before + 1
    # Not ended: it is queued again.
    assert ("pkb_evaluations_ended_total", ("profile", "cpux2"), ("verdict", "JUDGE_FAILURE")) not in read(_counts())


def test_what_is_taken_back_with_its_transaction_is_not_counted(alice, node, now):
    before = cancelled()
    actions.cancel_evaluation(evaluation_of(submit(alice)), by=alice)
    # The test's own transaction is never committed.
    assert cancelled() == before


def cancelled():
    return total(read(_counts()), "pkb_evaluations_ended_total", verdict="CANCELLED")


def test_the_state_costs_as_many_statements_whatever_was_judged(alice, bob, node, django_assert_num_queries):
    with django_assert_num_queries(STATEMENTS):
        state()
    for author in (alice, bob):
        for _ in range(3):
            submit(author)
    with django_assert_num_queries(STATEMENTS):
        state()


STATEMENTS = 7


def test_answers_are_kept_for_those_who_ask_at_once(db, django_assert_num_queries):
    collector = StateOfTheSite()
    collector.collect()
    with django_assert_num_queries(0):
        collector.collect()


def test_a_database_that_is_away_is_reported_and_no_error(db):
    def away(*_):
        raise OperationalError

    with connection.execute_wrapper(away):
        found = state()
    assert value(found, "pkb_state_up") == 0


def test_no_state_of_an_ended_evaluation_is_counted(alice, node, now):
    evaluation = evaluation_of(submit(alice))
    Evaluation.objects.filter(pk=evaluation.pk).update(state=State.FINISHED, finished_at=now)
    assert total(state(), "pkb_queue_depth") == 0
