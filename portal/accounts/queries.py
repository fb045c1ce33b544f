"""Shared reads of accounts."""

from django.contrib.auth.models import AnonymousUser
from django.db.models import QuerySet

from portal.accounts.models import ApiToken, User
from portal.core.requests import by_id

Viewer = User | AnonymousUser
"""The viewer of a page: signed in or not."""


def own_tokens(user: User) -> QuerySet[ApiToken]:
    """The tokens of `user`, the newest first, dead ones among them."""
    return ApiToken.objects.filter(user=user)


def get_token(user: User, token_id: int) -> ApiToken:
    """One of the user's own tokens; raises Refusal (404)."""
    return by_id(own_tokens(user), "token", token_id, "You have no such token.", "Choose one from your account page.")
