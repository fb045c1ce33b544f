"""Who acts as an operator: staff who have proven a second factor. Without one they have no operator's rights."""

from allauth.mfa.models import Authenticator
from django.conf import settings

from portal.accounts.models import User

_FACTORS = (Authenticator.Type.TOTP, Authenticator.Type.WEBAUTHN)


def has_second_factor(user: User) -> bool:
    """Whether `user` has set up an authenticator app or a passkey; signing in then asks for it."""
    return bool(Authenticator.objects.filter(user=user, type__in=_FACTORS).exists())


def as_proven(user: User) -> User:
    """The same object with only the proven operator's rights.

    Called wherever a user is identified (a session, a token), so that no view or query has to check.
    """
    is_privileged = user.is_staff or user.is_superuser
    if is_privileged and settings.OPERATORS_NEED_SECOND_FACTOR and not has_second_factor(user):
        user.is_unproven = True
        user.is_staff = user.is_superuser = False
    return user
