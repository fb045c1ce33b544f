"""Shared reads of webhooks and their logs."""

import uuid

from portal.accounts.models import Organisation
from portal.refusals import Refusal
from portal.webhooks.models import Webhook, WebhookDelivery


def get_webhook(organisation: Organisation, webhook_id: int) -> Webhook:
    """One webhook of an organisation, removed ones among them; raises Refusal (404)."""
    found = organisation.webhooks.select_related("organisation").filter(pk=webhook_id).first()
    if found is None:
        raise Refusal(
            field="webhook",
            value=str(webhook_id),
            message="The organisation has no such webhook.",
            remedy="Take an id from the list of its webhooks.",
            status=404,
        )
    return found


def get_delivery(webhook: Webhook, delivery_id: uuid.UUID) -> WebhookDelivery:
    """One line of a webhook's log; raises Refusal (404)."""
    found = webhook.deliveries.select_related("webhook__organisation").filter(pk=delivery_id).first()
    if found is None:
        raise Refusal(
            field="delivery",
            value=str(delivery_id),
            message="The webhook has no such delivery.",
            remedy="Take an id from the log of the webhook.",
            status=404,
        )
    return found
