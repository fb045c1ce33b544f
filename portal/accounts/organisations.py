"""Organisations: making them, who reaches which, and who belongs to one: invitations, roles, leaving and removing."""

import re
from datetime import timedelta

from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery
from django.utils import timezone

from portal.accounts.actions import lock_account
from portal.accounts.models import Invitation, InvitationState, Membership, Organisation, Role, User
from portal.core.errors import Conflict, Forbidden, Refusal, by_id, check_choice

MAX_OWNED = 10
SHORT_NAME = r"^[a-z0-9](?:[a-z0-9-]{0,58}[a-z0-9])?$"
MAX_OPEN = 50
"""The most open invitations of one organisation: each appears on somebody's page."""
MAX_MEMBERS = 200
ASK_AGAIN_AFTER = timedelta(days=7)
"""How long a person who declined cannot be invited again."""


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


# ---- who belongs to one ----------------------------------------------------------------------------------------------


def open_invitations(of: User | Organisation) -> QuerySet[Invitation]:
    """What an account is invited to, or whom an organisation has invited, without an answer yet."""
    return of.invitations.filter(state=InvitationState.OPEN).select_related("organisation", "invited_by", "invited")


def get_invitation(invitations: QuerySet[Invitation], invitation_id: int) -> Invitation:
    """One of these open invitations; raises Refusal (404)."""
    remedy = "It may have been answered or withdrawn. Ask for a new one."
    return by_id(invitations, "invitation", invitation_id, "There is no such open invitation.", remedy)


def invite(organisation: Organisation, *, username: str, role: str, by: User) -> Invitation:
    """Invite an account to the organisation; a second invitation changes the role that is offered.

    Raises:
        Refusal: `by` is no owner (403), there is no such account (404) or role, they belong to it already, declined
            lately, or too many are invited (409).
    """
    require_owner(by, organisation)
    check_choice("role", role, Role.values)
    user = _account(username)
    with transaction.atomic():
        _lock(organisation)
        _check_room(organisation, user)
        invitation, _ = Invitation.objects.update_or_create(
            organisation=organisation,
            invited=user,
            state=InvitationState.OPEN,
            defaults={"role": role, "invited_by": by},
        )
    return invitation


def accept(invitation: Invitation, *, by: User) -> Membership:
    """Belong to what one is invited to. Raises Refusal (404, 409)."""
    with transaction.atomic():
        lock_account(by)
        _lock(invitation.organisation)
        _end(invitation, InvitationState.ACCEPTED, invited=by)
        invitation.refresh_from_db(fields=["role"])  # it may have been offered anew since it was read
        if invitation.organisation.memberships.count() >= MAX_MEMBERS:
            raise _conflict(by.username, f"The organisation has {MAX_MEMBERS} members, which is the limit.")
        membership, _ = Membership.objects.get_or_create(
            organisation=invitation.organisation, user=by, defaults={"role": invitation.role}
        )
    return membership


def decline(invitation: Invitation, *, by: User) -> None:
    """Do not belong to what one is invited to. Raises Refusal (404)."""
    _end(invitation, InvitationState.DECLINED, invited=by)


def withdraw(invitation: Invitation, *, by: User) -> None:
    """Take an invitation back; for owners. Raises Refusal (403, 404)."""
    require_owner(by, invitation.organisation)
    _end(invitation, InvitationState.WITHDRAWN, invited=invitation.invited)


def change_role(organisation: Organisation, *, username: str, role: str, by: User) -> Membership:
    """Make a member an owner or an owner a member.

    Raises:
        Refusal: `by` is no owner (403), it has no member of that name (404), or it would have no owner or no sponsor
            of its GPU time (409).
    """
    require_owner(by, organisation)
    check_choice("role", role, Role.values)
    with transaction.atomic():
        current = _lock(organisation)
        membership = _membership(organisation, username)
        if role != Role.OWNER:
            _pass_on(current, membership, by=by)
        membership.role = role
        membership.save(update_fields=["role"])
    return membership


def remove_member(organisation: Organisation, *, username: str, by: User) -> None:
    """End a membership: one's own (leaving), or as an owner anybody's.

    What they made stays with the organisation. Raises Refusal as `change_role`.
    """
    if by.username != username:
        require_owner(by, organisation)
    with transaction.atomic():
        current = _lock(organisation)
        membership = _membership(organisation, username)
        _pass_on(current, membership, by=by)
        membership.delete()


def _pass_on(organisation: Organisation, leaving: Membership, *, by: User) -> None:
    """Ensure that the organisation keeps an owner, and a sponsor if the leaving owner was its sponsor.

    The leaving owner's invitations are withdrawn, so that they cannot return through an account of theirs.
    """
    if leaving.role != Role.OWNER:
        return
    others = organisation.memberships.filter(role=Role.OWNER, user__is_active=True).exclude(pk=leaving.pk)
    if not others.exists():
        raise _conflict(leaving.user.username, "The organisation would have no owner.", "Make somebody else an owner.")
    if organisation.sponsor_id == leaving.user_id:
        _change_sponsor(organisation, others, by=by)
    offered = open_invitations(organisation).filter(invited_by=leaving.user)
    offered.update(state=InvitationState.WITHDRAWN, ended_at=timezone.now())


def _change_sponsor(organisation: Organisation, others: QuerySet[Membership], *, by: User) -> None:
    """Make an owner the sponsor of the GPU time: the one who removes the sponsor, or one who accepted the role.

    Members whom others made owners have not agreed to have their allowance used.
    """
    accepted = Invitation.objects.filter(
        organisation=organisation, invited=OuterRef("user"), state=InvitationState.ACCEPTED, role=Role.OWNER
    )
    heir = others.filter(user=by).first() or others.filter(Exists(accepted)).order_by("pk").first()
    if heir is None:
        message = "No other owner has agreed to sponsor the organisation's GPU time."
        remedy = "Ask another owner to change your role or to remove you. Whoever does becomes the sponsor."
        raise _conflict(by.username, message, remedy)
    organisation.sponsor = heir.user
    organisation.save(update_fields=["sponsor"])


def _end(invitation: Invitation, state: InvitationState, *, invited: User) -> None:
    row = Invitation.objects.filter(pk=invitation.pk, invited=invited, state=InvitationState.OPEN)
    if not row.update(state=state, ended_at=timezone.now()):
        get_invitation(row, invitation.pk)


def _lock(organisation: Organisation) -> Organisation:
    return Organisation.objects.select_for_update().get(pk=organisation.pk)


def _membership(organisation: Organisation, username: str) -> Membership:
    members = organisation.memberships.select_related("user")
    message, remedy = "The organisation has no member of this name.", "Check the name, or invite them."
    return by_id(members, "username", username, message, remedy, column="user__username")


def _account(username: str) -> User:
    users = User.objects.filter(is_active=True)
    message, remedy = "There is no such account.", "Check the name, or ask them to sign up first."
    return by_id(users, "username", username, message, remedy, column="username")


def _check_room(organisation: Organisation, user: User) -> None:
    if organisation.memberships.filter(user=user).exists():
        raise _conflict(user.username, "This account is a member already.", "Change their role instead.")
    lately = timezone.now() - ASK_AGAIN_AFTER
    if organisation.invitations.filter(invited=user, state=InvitationState.DECLINED, ended_at__gt=lately).exists():
        message = f"This account has declined an invitation in the last {ASK_AGAIN_AFTER.days} days."
        raise _conflict(user.username, message, "Talk to its owner first, and invite the account later.")
    if open_invitations(organisation).exclude(invited=user).count() >= MAX_OPEN:
        message = f"The organisation has {MAX_OPEN} open invitations, which is the limit."
        raise _conflict(user.username, message, "Withdraw an open invitation.")


def _conflict(username: str, message: str, remedy: str = "Ask one of its owners.") -> Refusal:
    return Conflict("username", username, message, remedy)
