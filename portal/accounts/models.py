"""People, what they may be called, and the tokens that their programs sign in with."""

import re
import unicodedata
from datetime import datetime
from typing import Any

from django.contrib.auth.models import AbstractUser, AnonymousUser
from django.core.exceptions import ValidationError
from django.db import models
from django.utils import timezone

from portal.core.errors import Conflict, Refusal

_ALIKE = str.maketrans({"0": "o", "1": "l", "i": "l", "|": "l", "3": "e", "5": "s"})


def confusable_key(username: str) -> str:
    """A name reduced to its look: readers would confuse names with the same look."""
    folded = unicodedata.normalize("NFKC", username).casefold().translate(_ALIKE)
    return re.sub(r"[@.+_-]", "", folded).replace("rn", "m").replace("vv", "w")


class User(AbstractUser):
    """A person or robot that submits; `username` is public and appears on the boards.

    An operator without a second factor is loaded with `lacks_second_factor` set and without an operator's rights, which
    saving such an object leaves as they are in the database.
    """

    confusable_key = models.CharField(max_length=150, unique=True, editable=False)
    display_name = models.CharField(
        max_length=60, blank=True, help_text="How you write your name, for the head of your public page."
    )
    affiliation = models.CharField(max_length=100, blank=True, help_text="University, company or group.")
    website = models.URLField(blank=True, help_text="An address that begins with https://.")
    left_at = models.DateTimeField(
        null=True,
        blank=True,
        editable=False,
        help_text="When its owner deleted the account. It cannot be signed in to any more.",
    )
    closed_because = models.CharField(
        max_length=1000,
        blank=True,
        editable=False,
        help_text="Reason why operators closed the account. Its owner reads it.",
    )
    lacks_second_factor = False

    class Meta(AbstractUser.Meta):
        # Every board leaves closed accounts out. They are few, and without this they are looked for among all.
        indexes = (models.Index(fields=("id",), condition=models.Q(is_active=False), name="closed_accounts"),)

    def __str__(self) -> str:
        return self.username

    def clean(self) -> None:
        """Refuse, in the admin's form, a name that looks like another's."""
        super().clean()
        if User.objects.filter(confusable_key=confusable_key(self.username)).exclude(pk=self.pk).exists():
            raise ValidationError("This name looks like that of another account. Choose another.")

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Keep `confusable_key` with the name, and the stored rights of who is not proven."""
        self.confusable_key = confusable_key(self.username)
        wanted = kwargs.get("update_fields")
        if wanted is not None and "username" in wanted:
            kwargs["update_fields"] = {*wanted, "confusable_key"}
        if self.lacks_second_factor:
            names = {field.name for field in self._meta.concrete_fields if not field.primary_key}
            kwargs["update_fields"] = (names if wanted is None else set(wanted)) - {"is_staff", "is_superuser"}
        super().save(*args, **kwargs)


Viewer = User | AnonymousUser
"""The viewer of a page: signed in or not."""


class TokenScope(models.TextChoices):
    READ = "read", "Read own submissions"
    SUBMIT = "submit", "Submit and cancel"
    RUNS_READ = "runs:read", "Read own organisations' models and runs"
    RUNS_WRITE = "runs:write", "Create, fill and publish runs"


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
        return self.revoked_at is None and now < self.expires_at


class Organisation(models.Model):
    """A vendor, a laboratory or one person that owns models, their runs and a quota of GPU time."""

    slug = models.SlugField(max_length=60, unique=True)
    name = models.CharField(max_length=120)
    sponsor = models.ForeignKey(
        User,
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="sponsored",
        help_text="The account whose allowance its runs use. All organisations of one sponsor share it.",
    )
    gpu_seconds = models.FloatField(
        null=True,
        blank=True,
        help_text="GPU-seconds of its own in any 30 days. Empty: its runs use its sponsor's allowance.",
    )
    created_at = models.DateTimeField(default=timezone.now)
    members = models.ManyToManyField(User, through="Membership", related_name="organisations")

    class Meta:
        ordering = ("slug",)

    def __str__(self) -> str:
        return self.slug

    @property
    def payer_id(self) -> int | None:
        """The account whose allowance it draws on; None where an operator granted it one of its own."""
        return self.sponsor_id if self.gpu_seconds is None else None


class Role(models.TextChoices):
    """What a member may do: owners also invite and remove members and keep webhooks."""

    OWNER = "owner", "Owner"
    MEMBER = "member", "Member"


class Membership(models.Model):
    organisation = models.ForeignKey(Organisation, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=10, choices=Role.choices, default=Role.MEMBER)

    class Meta:
        ordering = ("user__username",)
        constraints = (models.UniqueConstraint(fields=("organisation", "user"), name="one_membership_per_user"),)

    def __str__(self) -> str:
        return f"{self.user} in {self.organisation} ({self.role})"


class InvitationState(models.TextChoices):
    OPEN = "open", "Open"
    ACCEPTED = "accepted", "Accepted"
    DECLINED = "declined", "Declined"
    WITHDRAWN = "withdrawn", "Withdrawn"


class Invitation(models.Model):
    """An owner's invitation to the organisation; membership begins when it is accepted."""

    organisation = models.ForeignKey(Organisation, on_delete=models.CASCADE, related_name="invitations")
    invited = models.ForeignKey(User, on_delete=models.CASCADE, related_name="invitations")
    role = models.CharField(max_length=10, choices=Role.choices, default=Role.MEMBER)
    invited_by = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    state = models.CharField(max_length=10, choices=InvitationState.choices, default=InvitationState.OPEN)
    created_at = models.DateTimeField(default=timezone.now)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("id",)
        constraints = (
            models.UniqueConstraint(
                fields=("organisation", "invited"),
                condition=models.Q(state="open"),
                name="one_open_invitation",
            ),
        )

    def __str__(self) -> str:
        return f"{self.invited} to {self.organisation} ({self.state})"


OWN_AUTHOR = "pkb"
MIN_NAME = 2
MAX_NAME = 40
_RESERVED = frozenset(
    f"""{OWN_AUTHOR} about account accounts admin administrator anonymous api docs everybody help login logout me
    moderator mod nobody none null official operator owner parallelkernelbench privacy reference root search security
    settings site staff static support system team terms undefined user webmaster well-known you""".split()
)
"""Reserved names: readers would think that they belong to the site or to nobody."""
_RESERVED_LOOKS = frozenset(confusable_key(name) for name in _RESERVED)
_SIGNS = re.compile(r"[@.+_-]{2}")


def check_name(username: str) -> None:
    """Refuse a name that makes no address, is the site's own, is taken, or looks like one that is.

    Raises:
        Refusal: what is wrong with it (422), or that another account has it or one that looks the same (409).
    """
    if fault := _fault(username):
        raise Refusal("username", username, *fault)
    if User.objects.filter(username__iexact=username).exists():
        raise name_taken(username)
    if User.objects.filter(confusable_key=confusable_key(username)).exists():
        message = "This name looks like that of another account."
        raise Conflict("username", username, message, "Choose a name that cannot be confused with another.")


def name_taken(username: str) -> Refusal:
    """Another account has this name (409)."""
    return Conflict("username", username, "This name is taken.", "Choose another name, or sign in if it is yours.")


def _fault(username: str) -> tuple[str, str] | None:
    """What is wrong with the name by itself, and what to do instead."""
    if not MIN_NAME <= len(username) <= MAX_NAME:
        return f"The name has {len(username)} characters.", f"Use {MIN_NAME} to {MAX_NAME} characters."
    if not re.fullmatch(r"[A-Za-z0-9@.+_-]+", username) or username.endswith("\n"):
        return "The name has a character that is not allowed.", "Use letters a to z, digits and @ . + - _."
    if not (username[0].isalnum() or username[0] == "_"):
        return "The name begins with a punctuation mark.", "Begin it with a letter, a digit or an underscore."
    if not (username[-1].isalnum() or username[-1] == "_") or _SIGNS.search(username):
        return (
            "The name ends with a punctuation mark, or has two in a row.",
            "Put a letter or a digit between and after them.",
        )
    if username.lower() in _RESERVED or confusable_key(username) in _RESERVED_LOOKS:
        return "This name is reserved for the site.", "Choose another one."
    return None
