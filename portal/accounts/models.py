"""People and the tokens that their programs sign in with."""

from datetime import datetime

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.utils import timezone


class User(AbstractUser):
    """A person or robot that submits; `username` is public and stands on the boards."""

    def __str__(self) -> str:
        return self.username


class TokenScope(models.TextChoices):
    """What a token may do."""

    READ = "read", "Read own submissions"
    SUBMIT = "submit", "Submit and cancel"


class ApiToken(models.Model):
    """A credential for the API. Only the SHA-256 of the secret is kept; `prefix` is what its owner recognises it by."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=80)
    prefix = models.CharField(max_length=12)
    digest = models.CharField(max_length=64, unique=True)
    scopes = models.JSONField(default=list)
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-created_at",)

    def __str__(self) -> str:
        return f"{self.prefix}... ({self.name})"

    def is_live(self, *, now: datetime) -> bool:
        """Whether the token can be used at `now`."""
        return self.revoked_at is None and now < self.expires_at
