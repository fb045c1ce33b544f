"""Endpoints that receive events of runs or notices, the log of deliveries, and the notices that these carry."""

import uuid

from django.conf import settings
from django.db import models
from django.utils import timezone

from portal.accounts.models import Organisation
from portal.runs.models import RunEvent

TEST_KIND = "webhook.test"
"""The `kind` of a test of a webhook."""


class NoticeKind(models.TextChoices):
    VERDICT = "verdict", "A verdict on a submission of yours"
    RECORD_BEATEN = "record_beaten", "Somebody beats a record of yours"
    PLACE_LOST = "place_lost", "Somebody passes you among the first ten of a board"
    QUARANTINE = "quarantine", "An entry of yours is taken off its boards, or back on them"


class Form(models.TextChoices):
    """How a message is written, and where it goes."""

    SLACK = "slack", "Slack"
    DISCORD = "discord", "Discord"
    SIGNED = "signed", "JSON, signed"
    MAIL = "mail", "Mail"


class Endpoint(models.Model):
    """A receiver: a webhook of an organisation, or a channel of an account.

    A webhook gets every event of its `kinds` as a delivery, a channel its notices of several minutes as one. `free_at`
    is when it may be served again: later than now while a process serves it, for a while after a delivery of notices,
    and after it failed `failures` times in a row.
    """

    organisation = models.ForeignKey(Organisation, null=True, on_delete=models.CASCADE, related_name="webhooks")
    account = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.CASCADE, related_name="channels")
    form = models.CharField(max_length=10, choices=Form.choices, default=Form.SIGNED)
    url = models.CharField(max_length=300, blank=True, help_text="Empty for mail, which goes to the account's address.")
    secret = models.CharField(max_length=64)
    kinds = models.JSONField(default=list)
    failures = models.PositiveIntegerField(default=0, editable=False)
    free_at = models.DateTimeField(default=timezone.now, editable=False)
    created_at = models.DateTimeField(default=timezone.now)
    removed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("id",)
        constraints = (
            models.CheckConstraint(
                condition=models.Q(organisation=None, account__isnull=False)
                | models.Q(organisation__isnull=False, account=None),
                name="one_owner_of_an_endpoint",
            ),
        )

    def __str__(self) -> str:
        return self.url if self.is_webhook else f"{self.get_form_display()} of {self.account}"

    @property
    def is_webhook(self) -> bool:
        return self.organisation_id is not None

    @property
    def noun(self) -> str:
        return "webhook" if self.is_webhook else "channel"


class DeliveryState(models.TextChoices):
    WAITING = "waiting", "Waiting"
    DELIVERED = "delivered", "Delivered"
    GIVEN_UP = "given_up", "Given up"


class Delivery(models.Model):
    """One message to one endpoint, and its result: the log. It carries an event, or notices, or is a test.

    A test is tried once and at once.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    endpoint = models.ForeignKey(Endpoint, on_delete=models.CASCADE, related_name="deliveries")
    event = models.ForeignKey(RunEvent, null=True, on_delete=models.CASCADE, related_name="deliveries")
    is_test = models.BooleanField(default=False)
    state = models.CharField(max_length=10, choices=DeliveryState.choices, default=DeliveryState.WAITING)
    tries = models.PositiveSmallIntegerField(default=0)
    next_try_at = models.DateTimeField(null=True, blank=True, default=timezone.now)
    answer_status = models.PositiveSmallIntegerField(null=True, blank=True)
    error = models.CharField(max_length=300, blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    delivered_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name_plural = "deliveries"
        ordering = ("-created_at",)
        constraints = (models.UniqueConstraint(fields=("endpoint", "event"), name="one_delivery_per_event"),)
        indexes = (
            models.Index(
                fields=("endpoint", "next_try_at"), condition=models.Q(state="waiting"), name="due_of_an_endpoint"
            ),
        )

    def __str__(self) -> str:
        return f"{self.endpoint}, {self.created_at:%Y-%m-%d %H:%M}"

    @property
    def kind(self) -> str:
        """The kind of event: an `EventKind`, or `TEST_KIND`."""
        return self.event.kind if self.event is not None else TEST_KIND


class Notice(models.Model):
    """One notice for one channel. `delivery` is what carried it; None while the notice is pending."""

    endpoint = models.ForeignKey(Endpoint, on_delete=models.CASCADE, related_name="notices")
    kind = models.CharField(max_length=20, choices=NoticeKind.choices)
    text = models.CharField(max_length=300)
    path = models.CharField(max_length=200, help_text="Path of the page of this site that shows it.")
    delivery = models.ForeignKey(Delivery, null=True, on_delete=models.CASCADE, related_name="notices")
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ("id",)
        indexes = (
            models.Index(fields=("endpoint", "at"), condition=models.Q(delivery=None), name="notices_to_be_told"),
        )

    def __str__(self) -> str:
        return self.text
