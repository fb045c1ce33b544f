"""Who belongs to an organisation: invitations and their answers, roles, leaving and removing."""

from datetime import timedelta

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone

from portal.accounts.actions import lock_account
from portal.accounts.models import Invitation, InvitationState, Membership, Organisation, Role, User
from portal.accounts.organisations import require_owner
from portal.core.errors import Conflict, Refusal, check_choice
from portal.core.requests import by_id

MAX_OPEN = 50
"""The most open invitations of one organisation: each appears on somebody's page."""
MAX_MEMBERS = 200
ASK_AGAIN_AFTER = timedelta(days=7)
"""How long a person who declined cannot be invited again."""


def open_invitations(user: User) -> QuerySet[Invitation]:
    chosen = Invitation.objects.filter(invited=user, state=InvitationState.OPEN)
    return chosen.select_related("organisation", "invited_by", "invited")


def sent_invitations(organisation: Organisation) -> QuerySet[Invitation]:
    chosen = organisation.invitations.filter(state=InvitationState.OPEN)
    return chosen.select_related("organisation", "invited_by", "invited")


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
    offered = sent_invitations(organisation).filter(invited_by=leaving.user)
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
    declined = organisation.invitations.filter(invited=user, state=InvitationState.DECLINED, ended_at__gt=lately)
    if declined.exists():
        message = f"This account has declined an invitation in the last {ASK_AGAIN_AFTER.days} days."
        raise _conflict(user.username, message, "Talk to its owner first, and invite the account later.")
    if sent_invitations(organisation).exclude(invited=user).count() >= MAX_OPEN:
        message = f"The organisation has {MAX_OPEN} open invitations, which is the limit."
        raise _conflict(user.username, message, "Withdraw an open invitation.")


def _conflict(username: str, message: str, remedy: str = "Ask one of its owners.") -> Refusal:
    return Conflict("username", username, message, remedy)
