"""Channels of people, their notices, and the messages that carried them."""

import uuid

from django.conf import settings
from django.db import models
from django.utils import timezone


class NoticeKind(models.TextChoices):
    """The kinds of notices."""

    VERDICT = "verdict", "A verdict on a submission of yours"
    RECORD_BEATEN = "record_beaten", "Somebody beats a record of yours"
    PLACE_LOST = "place_lost", "Somebody passes you among the first ten of a board"
    RUN_DONE = "run_done", "A run of yours is done"


class Form(models.TextChoices):
    """How a message is written, and where it goes."""

    SLACK = "slack", "Slack"
    DISCORD = "discord", "Discord"
    SIGNED = "signed", "JSON, signed"
    MAIL = "mail", "Mail"


class Channel(models.Model):
    """A channel for a person's notices. `kinds` are those that are switched on.

    `free_at` is when it may be served again. That is later than now while a process serves it, for a while after every
    message, and after it has failed `failures` times in a row.
    """

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="channels")
    form = models.CharField(max_length=10, choices=Form.choices)
    url = models.CharField(max_length=300, blank=True, help_text="Empty for mail, which goes to the account's address.")
    secret = models.CharField(max_length=64)
    kinds = models.JSONField(default=list)
    failures = models.PositiveIntegerField(default=0, editable=False)
    free_at = models.DateTimeField(default=timezone.now, editable=False)
    created_at = models.DateTimeField(default=timezone.now)
    removed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("id",)

    def __str__(self) -> str:
        return f"{self.get_form_display()} of {self.user}"

    @property
    def shown_url(self) -> str:
        """The address without what in it is as good as a password."""
        return f"{self.url[:32]}..." if len(self.url) > 32 else self.url


class MessageState(models.TextChoices):
    """How far the sending of a message has come."""

    WAITING = "waiting", "Waiting"
    DELIVERED = "delivered", "Delivered"
    GIVEN_UP = "given_up", "Given up"


class Message(models.Model):
    """One message to one channel, and its result: the log. It carries all notices pending at that time."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    channel = models.ForeignKey(Channel, on_delete=models.CASCADE, related_name="messages")
    is_test = models.BooleanField(default=False)
    state = models.CharField(max_length=10, choices=MessageState.choices, default=MessageState.WAITING)
    tries = models.PositiveSmallIntegerField(default=0)
    next_try_at = models.DateTimeField(null=True, blank=True, default=timezone.now)
    answer_status = models.PositiveSmallIntegerField(null=True, blank=True)
    error = models.CharField(max_length=300, blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    delivered_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-created_at",)
        indexes = (
            models.Index(
                fields=("channel", "next_try_at"), condition=models.Q(state="waiting"), name="due_of_a_channel"
            ),
        )

    def __str__(self) -> str:
        return f"{self.channel}, {self.created_at:%Y-%m-%d %H:%M}"


class Notice(models.Model):
    """One notice for one channel. `message` is the message that carried it; None while the notice is pending.

    `about` is the run while the notice waits for the run to stay done.
    """

    channel = models.ForeignKey(Channel, on_delete=models.CASCADE, related_name="notices")
    kind = models.CharField(max_length=20, choices=NoticeKind.choices)
    text = models.CharField(max_length=300)
    path = models.CharField(max_length=200, help_text="Path of the page of this site that shows it.")
    about = models.CharField(max_length=40, blank=True)
    message = models.ForeignKey(Message, null=True, on_delete=models.CASCADE, related_name="notices")
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ("id",)
        indexes = (models.Index(fields=("channel", "at"), condition=models.Q(message=None), name="notices_to_be_told"),)

    def __str__(self) -> str:
        return self.text
