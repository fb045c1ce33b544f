"""Signing in to the API with `Authorization: Bearer pkb_...`."""

from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.request import Request

from portal.accounts import actions
from portal.accounts.models import ApiToken, User
from portal.api.faults import TokenRefused
from portal.core.errors import Refusal


class BearerAuthentication(BaseAuthentication):
    """Takes the token of the Authorization header; other schemes and no header leave the caller anonymous."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        """The token's owner and the token.

        Raises:
            TokenRefused: the token is malformed, unknown, expired or revoked.
        """
        scheme, _, secret = get_authorization_header(request).decode("latin-1").partition(" ")
        if scheme.lower() != "bearer":
            return None
        try:
            token = actions.authenticate(secret.strip())
        except Refusal as refusal:
            raise TokenRefused(refusal) from refusal
        return token.user, token

    def authenticate_header(self, _request: Request) -> str:
        """The challenge of a 401."""
        return 'Bearer realm="pkb"'
