"""Organisations: quota and webhooks. Who belongs to one is changed on its page."""

from collections.abc import Sequence
from typing import Any

from django.utils import timezone
from rest_framework.request import Request

from evaluator.hardware import profiles
from portal.accounts import organisations
from portal.accounts.identity import signed_in
from portal.accounts.models import Organisation, TokenScope
from portal.api import run_inputs
from portal.api.base import SIGNED_IN, Resource, operation
from portal.api.catalog_outputs import ForecastOutput
from portal.api.run_outputs import (
    DeliveryOutput,
    NewWebhookOutput,
    OrganisationOutput,
    QuotaOutput,
    WebhookOutput,
)
from portal.deliveries import actions, queries
from portal.deliveries.models import Delivery
from portal.deliveries.models import Endpoint as Webhook
from portal.submissions.quotas import Forecast, Limit, forecasts, payer_of_runs, quota_of

_LOGGED = 200


class _Organisations(Resource):
    """What concerns organisations: nobody reads it without signing in."""

    tag = "Organisations"
    read_scope = TokenScope.RUNS_READ
    write_scope = TokenScope.RUNS_WRITE
    permission_classes = SIGNED_IN


def _organisation(request: Request, slug: str) -> Organisation:
    return organisations.get_organisation(signed_in(request), slug)


def _webhook(request: Request, slug: str, webhook_id: int) -> Webhook:
    return queries.get_webhook(_organisation(request, slug), webhook_id)


class Organisations(_Organisations):
    @operation("listOrganisations", "List own organisations", OrganisationOutput, many=True)
    def list(self, request: Request) -> Any:
        """The organisations that the caller belongs to."""
        return organisations.own_organisations(signed_in(request))

    @operation(
        "createOrganisation",
        "Create an organisation",
        OrganisationOutput,
        status=201,
        body=run_inputs.OrganisationInput,
        refuses=(409,),
    )
    def create(self, request: Request) -> Organisation:
        """A new organisation, which the caller owns."""
        return organisations.create_organisation(signed_in(request), **self.body())

    @operation("readOrganisation", "Read an organisation", OrganisationOutput)
    def retrieve(self, request: Request, slug: str) -> Organisation:
        """An organisation that the caller belongs to."""
        return _organisation(request, slug)

    @operation("readOrganisationAllowance", "Read the cost of a run's evaluations", ForecastOutput, many=True)
    def allowance(self, request: Request, slug: str) -> Sequence[Forecast]:
        """For every profile: the largest cost of one more evaluation, what is left today, and when it renews.

        It is the allowance of the sponsor's organisations together, or the organisation's own. The quota of 30 days
        counts beside it.
        """
        return forecasts(payer_of_runs(_organisation(request, slug)), profiles.profiles(), now=timezone.now())

    @operation("readQuota", "Read the quota", QuotaOutput)
    def quota(self, request: Request, slug: str) -> Limit:
        """GPU-seconds used, reserved and left in any 30 days."""
        return quota_of(_organisation(request, slug), now=timezone.now())


class Webhooks(_Organisations):
    @operation("listWebhooks", "List webhooks", WebhookOutput, many=True)
    def list(self, request: Request, slug: str) -> Any:
        """The addresses that receive events, removed ones included; secrets are not shown."""
        return _organisation(request, slug).webhooks.all()

    @operation(
        "addWebhook", "Add a webhook", NewWebhookOutput, status=201, body=run_inputs.WebhookInput, refuses=(409,)
    )
    def create(self, request: Request, slug: str) -> Webhook:
        """Add an address that receives events; the secret that signs them is only in this response. For owners."""
        return actions.add_webhook(_organisation(request, slug), by=signed_in(request), **self.body())

    @operation("removeWebhook", "Remove a webhook", WebhookOutput)
    def remove(self, request: Request, slug: str, webhook_id: int) -> Webhook:
        """Stop sending events to an address; its log stays. For owners."""
        webhook = _webhook(request, slug, webhook_id)
        actions.remove_endpoint(webhook, by=signed_in(request))
        webhook.refresh_from_db()
        return webhook

    @operation("tryWebhook", "Try a webhook", DeliveryOutput, status=202, refuses=(409,))
    def test(self, request: Request, slug: str, webhook_id: int) -> Delivery:
        """Have a `webhook.test` sent once, in a second or so; the log says what was answered. For owners."""
        return actions.send_test(_webhook(request, slug, webhook_id), by=signed_in(request))

    @operation("listDeliveries", "Read a webhook's log", DeliveryOutput, many=True)
    def deliveries(self, request: Request, slug: str, webhook_id: int) -> Any:
        """The last 200 deliveries, newest first: event, number of tries, response."""
        return _webhook(request, slug, webhook_id).deliveries.select_related("event")[:_LOGGED]
