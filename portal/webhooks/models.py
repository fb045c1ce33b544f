"""Addresses that receive events of runs, and the log of deliveries."""

import uuid

from django.db import models
from django.utils import timezone

from portal.accounts.models import Organisation
from portal.runs.models import RunEvent

TEST_KIND = "webhook.test"
"""What a delivery is called that was asked for to try a webhook."""


class Webhook(models.Model):
    """An address of an organisation that receives events. Messages are signed with the secret.

    `free_at` is when it may be served again: later than now while a process serves it, or after it failed `failures`
    times in a row.
    """

    organisation = models.ForeignKey(Organisation, on_delete=models.CASCADE, related_name="webhooks")
    url = models.URLField(max_length=300)
    events = models.JSONField(default=list)
    secret = models.CharField(max_length=64)
    failures = models.PositiveIntegerField(default=0, editable=False)
    free_at = models.DateTimeField(default=timezone.now, editable=False)
    created_at = models.DateTimeField(default=timezone.now)
    removed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "runs_webhook"  # as it was called when runs held it
        ordering = ("id",)

    def __str__(self) -> str:
        return self.url


class DeliveryState(models.TextChoices):
    """The state of one delivery."""

    WAITING = "waiting", "Waiting"
    DELIVERED = "delivered", "Delivered"
    GIVEN_UP = "given_up", "Given up"


BY_HAND = models.Q(event=None) | models.Q(again_of__isnull=False)
"""Deliveries with `WebhookDelivery.is_by_hand`."""


class WebhookDelivery(models.Model):
    """One event for one webhook, and its result: the delivery log. A delivery without an event is a test.

    `again_of` is the failed delivery that this one repeats, at somebody's request.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, related_name="deliveries")
    event = models.ForeignKey(RunEvent, null=True, on_delete=models.CASCADE, related_name="deliveries")
    again_of = models.OneToOneField(
        "self", null=True, blank=True, editable=False, on_delete=models.CASCADE, related_name="sent_again"
    )
    state = models.CharField(max_length=10, choices=DeliveryState.choices, default=DeliveryState.WAITING)
    tries = models.PositiveSmallIntegerField(default=0)
    next_try_at = models.DateTimeField(null=True, blank=True, default=timezone.now)
    answer_status = models.PositiveSmallIntegerField(null=True, blank=True)
    error = models.CharField(max_length=300, blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    delivered_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "runs_webhookdelivery"  # as above
        verbose_name_plural = "webhook deliveries"
        ordering = ("-created_at",)
        constraints = (
            models.UniqueConstraint(
                fields=("webhook", "event"), condition=models.Q(again_of=None), name="one_delivery_per_event"
            ),
        )
        indexes = (models.Index(fields=("webhook", "next_try_at"), name="due_of_a_webhook"),)

    def __str__(self) -> str:
        return f"{self.kind} to {self.webhook} ({self.state})"

    @property
    def kind(self) -> str:
        """The kind of event: an `EventKind`, or `TEST_KIND`."""
        return self.event.kind if self.event is not None else TEST_KIND

    @property
    def is_by_hand(self) -> bool:
        """Whether it was sent by hand, a test or a repetition: it is tried once and immediately."""
        return self.event_id is None or self.again_of_id is not None

    @property
    def may_be_sent_again(self) -> bool:
        """Whether it was given up, is no test, and was not sent again yet."""
        is_failed = self.state == DeliveryState.GIVEN_UP and self.event_id is not None
        return is_failed and getattr(self, "sent_again", None) is None
