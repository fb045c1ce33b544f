"""The machines that judge, and their slots."""

from django.db import models
from django.utils import timezone

from portal.accounts.models import Organisation


class Node(models.Model):
    """A machine that may take work. `key_digest` is the SHA-256 of the key that its messages carry.

    `earlier_key_digest` is that of the key before, until the present one is first used. `refusals` says which of its
    messages were refused lately and why, as the node has it.

    A node with an `owner` is a guest node: it judges only what was submitted to that owner's boards, for the profiles
    named here. Messages of a revoked node are refused.
    """

    name = models.SlugField(max_length=60, unique=True)
    key_digest = models.CharField(max_length=64)
    earlier_key_digest = models.CharField(max_length=64, blank=True, editable=False)
    owner = models.ForeignKey(
        Organisation,
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="nodes",
        help_text="The organisation that lends this guest node. Empty: a node of the site.",
    )
    profiles = models.JSONField(
        default=list,
        blank=True,
        help_text="Profiles that the node may offer. Empty: all; a guest node needs at least one.",
    )
    revoked_at = models.DateTimeField(null=True, blank=True, editable=False)
    is_enabled = models.BooleanField(default=True, help_text="A disabled node finishes its work and gets no more.")
    created_at = models.DateTimeField(default=timezone.now)
    seen_at = models.DateTimeField(null=True, blank=True)
    sandbox = models.CharField(max_length=20, blank=True)
    backends = models.JSONField(default=list)
    revisions = models.JSONField(default=dict)
    environment = models.JSONField(default=dict)
    refusals = models.JSONField(default=list)
    builders = models.PositiveSmallIntegerField(
        default=0, help_text="How many evaluations the node compiles at a time, while its slots judge others."
    )

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name

    @property
    def owner_slug(self) -> str:
        """The organisation that lends it; empty for a node of the site."""
        return self.owner.slug if self.owner else ""

    @property
    def is_revoked(self) -> bool:
        return self.revoked_at is not None


class Slot(models.Model):
    """GPUs or cores of a node that judge one evaluation at a time, for one profile.

    `state` is the state last reported. Whether the site has work there follows from the evaluations with a lease.
    """

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="slots")
    index = models.PositiveSmallIntegerField()
    profile = models.CharField(max_length=40)
    state = models.CharField(max_length=20)
    note = models.CharField(max_length=300, blank=True)

    class Meta:
        ordering = ("node", "index")
        constraints = (models.UniqueConstraint(fields=("node", "index"), name="one_row_per_slot"),)

    def __str__(self) -> str:
        return f"{self.node}/{self.index} ({self.profile})"
