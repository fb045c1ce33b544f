"""Organisations: making them, and who reaches which. Who belongs to one is changed in `memberships`."""

import re

from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery

from portal.accounts.actions import lock_account
from portal.accounts.models import Invitation, InvitationState, Membership, Organisation, Role, User
from portal.core.errors import Conflict, Forbidden, Refusal
from portal.core.requests import by_id

MAX_OWNED = 10
SHORT_NAME = r"^[a-z0-9](?:[a-z0-9-]{0,58}[a-z0-9])?$"


def own_organisations(user: User) -> QuerySet[Organisation]:
    """The organisations that `user` belongs to, with their members."""
    return (
        Organisation.objects.filter(memberships__user=user)
        .prefetch_related("memberships__user")
        .select_related("sponsor")
    )


def get_organisation(user: User, slug: str) -> Organisation:
    """An organisation that `user` belongs to, of staff every one; raises Refusal (404), also where it is not theirs."""
    reachable = Organisation.objects.all() if user.is_staff else own_organisations(user)
    message = "You are not a member of an organisation of this name."
    remedy = "Check its short name, or ask one of its owners to invite you."
    return by_id(reachable, "organisation", slug, message, remedy, column="slug")


def role_in(user: User, organisation: Organisation) -> str:
    """The role of `user`, empty where they are no member."""
    membership = organisation.memberships.filter(user=user).first()
    return membership.role if membership else ""


def require_owner(user: User, organisation: Organisation) -> None:
    """Refuse (403) users who do not own the organisation."""
    if not user.is_staff and role_in(user, organisation) != Role.OWNER:
        message = "Only an owner of the organisation can do this."
        raise Forbidden("organisation", organisation.slug, message, "Ask one of its owners.")


def create_organisation(owner: User, *, slug: str, name: str) -> Organisation:
    """Create an organisation that `owner` owns and whose runs draw on their allowance of GPU time.

    Raises:
        Refusal: the short name is malformed or taken (409), the name is empty, or they own too many (409).
    """
    if not re.fullmatch(SHORT_NAME, slug) or slug.endswith("\n"):
        raise Refusal(
            "slug", slug, "This is not a valid short name.", "Use 1 to 60 lower-case letters, digits and hyphens."
        )
    if not name.strip() or not name.isprintable():
        raise Refusal("name", name, "The name is empty or cannot be displayed.", "Give the organisation a name.")
    try:
        with transaction.atomic():
            lock_account(owner)
            if owner.memberships.filter(role=Role.OWNER).count() >= MAX_OWNED:
                message = f"You own {MAX_OWNED} organisations, which is the limit."
                raise Conflict("slug", slug, message, "Use an organisation that you own.")
            organisation = Organisation.objects.create(slug=slug, name=name.strip()[:120], sponsor=owner)
            Membership.objects.create(organisation=organisation, user=owner, role=Role.OWNER)
    except IntegrityError as error:
        raise Conflict("slug", slug, "This short name is taken.", "Choose another.") from error
    return organisation


def default_organisations(user: User) -> QuerySet[Organisation]:
    """The organisations that `user` founded or has made a run in.

    A run goes into an organisation whose invitation the user merely accepted only if it is named: its members read it.
    """
    founder = Membership.objects.filter(organisation=OuterRef("pk")).order_by("pk").values("user")[:1]
    # When the founder leaves, the first of those whom they invited becomes the oldest member.
    invited = Invitation.objects.filter(organisation=OuterRef("pk"), invited=user, state=InvitationState.ACCEPTED)
    chosen = Q(founder=user.pk) & ~Exists(invited) | Q(models__runs__created_by=user)
    return own_organisations(user).annotate(founder=Subquery(founder)).filter(chosen).distinct()


def default_organisation(user: User, slug: str | None) -> Organisation:
    """The organisation in which `user` makes a run: the named one, their only home, or a new one of their own.

    Raises:
        Refusal: the named one is not theirs (404), or they have several homes and named none (409).
    """
    if slug:
        return get_organisation(user, slug)
    own = list(default_organisations(user)[:2])
    if len(own) > 1:
        raise Conflict(
            "organisation", "", "You belong to several organisations.", "Name the one that the run belongs to."
        )
    if own:
        return own[0]
    wanted = re.sub(r"[^a-z0-9]+", "-", user.username.lower()).strip("-")[:50] or "person"
    taken = set(Organisation.objects.filter(slug__startswith=wanted).values_list("slug", flat=True))
    free = next(slug for slug in (wanted, *(f"{wanted}-{n}" for n in range(2, 10_000))) if slug not in taken)
    return create_organisation(user, slug=free, name=user.username)
