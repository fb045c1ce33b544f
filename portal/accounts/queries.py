"""Shared reads of accounts."""

from django.contrib.auth.models import AnonymousUser

from portal.accounts.models import ApiToken, User
from portal.core.requests import by_id

Viewer = User | AnonymousUser
"""The viewer of a page: signed in or not."""


def get_token(user: User, token_id: int) -> ApiToken:
    """One of the user's own tokens; raises Refusal (404)."""
    return by_id(user.tokens.all(), "token", token_id, "You have no such token.", "Choose one from your account page.")
