"""How a session becomes a user."""

from typing import Any

from django.contrib.auth.backends import ModelBackend

from portal.accounts.models import User
from portal.accounts.operators import as_proven


class AccountBackend(ModelBackend):
    """Django's own, except that an operator without a second factor comes without an operator's rights."""

    def get_user(self, user_id: Any) -> User | None:
        """The user of a session, or None where the account is closed or gone."""
        user = super().get_user(user_id)
        return as_proven(user) if isinstance(user, User) and user.left_at is None else None

    def has_perm(self, user_obj: Any, perm: str, obj: Any = None) -> bool:
        """Whether the user has a permission of the admin; only operators have any."""
        return bool(user_obj.is_staff) and super().has_perm(user_obj, perm, obj)
