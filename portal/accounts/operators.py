"""Who acts as an operator: staff who have proven a second factor. Without one they have no operator's rights."""

from typing import Any

from allauth.mfa.models import Authenticator
from django.conf import settings
from django.contrib.auth.backends import ModelBackend

from portal.accounts.models import User

_FACTORS = (Authenticator.Type.TOTP, Authenticator.Type.WEBAUTHN)


def has_second_factor(user: User) -> bool:
    """Whether `user` has set up an authenticator app or a passkey; signing in then asks for it."""
    return bool(Authenticator.objects.filter(user=user, type__in=_FACTORS).exists())


def drop_unproven_rights(user: User) -> User:
    """The same object with only the proven operator's rights.

    Called wherever a user is identified (a session, a token), so that no view or query has to check.
    """
    is_privileged = user.is_staff or user.is_superuser
    if is_privileged and settings.OPERATORS_NEED_SECOND_FACTOR and not has_second_factor(user):
        user.lacks_second_factor = True
        user.is_staff = user.is_superuser = False
    return user


class AccountBackend(ModelBackend):
    """Django's own, except that an operator without a second factor comes without an operator's rights."""

    def get_user(self, user_id: Any) -> User | None:
        """The user of a session, or None where the account is closed or gone."""
        user = super().get_user(user_id)
        return drop_unproven_rights(user) if isinstance(user, User) and user.left_at is None else None

    def has_perm(self, user_obj: Any, perm: str, obj: Any = None) -> bool:
        """Whether the user has a permission of the admin; only operators have any."""
        return bool(user_obj.is_staff) and super().has_perm(user_obj, perm, obj)
