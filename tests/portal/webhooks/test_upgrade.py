"""A site whose webhooks were made while they belonged to `runs` keeps them, their log and who may see them."""

import pytest
from django.contrib.auth.models import Group, Permission
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from portal.webhooks import queries
from portal.webhooks.models import WebhookDelivery
from tests.portal.runs.rows import make_run

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def run(alice):
    """Made by today's models, so before the database goes back."""
    return make_run(alice)


@pytest.fixture
def before(run):
    """The database as it was before webhooks had an app of their own: its models. Brought up to date afterwards."""
    executor = MigrationExecutor(connection)
    executor.migrate([("runs", "0003_sent_again")])
    yield executor.loader.project_state([("runs", "0003_sent_again")]).apps
    _upgrade()


def _upgrade() -> None:
    executor = MigrationExecutor(connection)
    executor.migrate(executor.loader.graph.leaf_nodes())


def test_webhooks_and_their_log_survive_the_upgrade(before, run):
    organisation = run.model.organisation
    event = before.get_model("runs", "RunEvent").objects.create(run_id=run.pk, kind="run.completed")
    webhook = before.get_model("runs", "Webhook").objects.create(
        organisation_id=organisation.pk,
        url="https://example.org/hook",
        events=["run.completed"],
        secret="s",
        failures=2,
    )
    deliveries = before.get_model("runs", "WebhookDelivery").objects
    failed = deliveries.create(webhook=webhook, event=event, state="given_up", tries=7, error="answered 500")
    again = deliveries.create(webhook=webhook, event=event, again_of=failed)
    viewers = Group.objects.create(name="support")
    viewers.permissions.add(Permission.objects.get(codename="view_webhook"))

    _upgrade()

    found = queries.get_webhook(organisation, webhook.pk)
    assert (found.url, found.events, found.secret, found.failures) == (
        "https://example.org/hook",
        ["run.completed"],
        "s",
        2,
    )
    kept = queries.get_delivery(found, failed.pk)
    assert (kept.kind, kept.state, kept.tries, kept.error) == ("run.completed", "given_up", 7, "answered 500")
    assert kept.sent_again == WebhookDelivery.objects.get(pk=again.pk)
    assert [permission.content_type.app_label for permission in viewers.permissions.all()] == ["webhooks"]
