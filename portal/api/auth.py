"""Who may call the API: people by token or session and with the scope that a call needs, nodes by their keys."""

from typing import Any

from django.contrib.auth.models import AnonymousUser
from rest_framework import exceptions
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from portal.accounts import actions
from portal.accounts.models import ApiToken, User
from portal.core import metrics
from portal.core.errors import Forbidden, Refusal
from portal.nodes.actions import authenticate as authenticate_node
from portal.nodes.models import Node


class CredentialRefused(exceptions.APIException):
    """A credential that may not be used here: the refusal that says why, and the challenge of its response."""

    def __init__(self, refusal: Refusal, challenge: str) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal
        self.auth_header = f'Bearer realm="pkb", {challenge}'


class BearerAuthentication(BaseAuthentication):
    """Takes the token of the Authorization header; other schemes and no header leave the caller anonymous."""

    realm = "pkb"

    def authenticate(self, request: Request) -> tuple[User | AnonymousUser, Any] | None:
        """The caller and the credential; raises CredentialRefused, or Refusal of another status than 401."""
        scheme, _, secret = get_authorization_header(request).decode("latin-1").partition(" ")
        if scheme.lower() != "bearer":
            return None
        try:
            return self.owner_of(secret.strip(), request)
        except Refusal as refusal:
            if refusal.status != 401:
                raise
            reason = refusal.message.replace('"', "'").encode("ascii", "replace").decode()
            challenge = f'error="invalid_token", error_description="{reason}"'
            raise CredentialRefused(refusal, challenge) from refusal

    def owner_of(self, secret: str, _request: Request) -> tuple[User | AnonymousUser, Any]:
        """The token's owner and the token; raises Refusal where it is malformed, unknown, expired or revoked."""
        token = actions.authenticate(secret)
        return token.user, token

    def authenticate_header(self, _request: Request) -> str:
        return f'Bearer realm="{self.realm}"'


def scope_missing(scope: str) -> CredentialRefused:
    """The refusal of a valid token that may not do this."""
    refusal = Forbidden(
        "Authorization",
        "",
        f"This token lacks the scope {scope!r}.",
        f"Create a token with the scope {scope!r} on your account page.",
    )
    return CredentialRefused(refusal, f'error="insufficient_scope", scope="{scope}"')


class HasScope(BasePermission):
    """Holds what a token may do. A browser's session has every scope, a token those it was given."""

    def has_permission(self, request: Request, view: Any) -> bool:
        """Whether the caller may use this method; CredentialRefused names a missing scope."""
        # `view` is not annotated as Resource: REST framework imports this module while it still defines APIView.
        scope = view.scope_for(request.method)
        if scope and isinstance(request.auth, ApiToken):
            also_enough = view.also_enough if request.method in SAFE_METHODS else ()
            if not {scope, *also_enough} & set(request.auth.scopes):
                raise scope_missing(str(scope))
        return True


class NodeKey(BearerAuthentication):
    """Takes the key of the node that the address names."""

    realm = "pkb node"

    def owner_of(self, secret: str, request: Request) -> tuple[AnonymousUser, Node]:
        """Nobody's account, and the node; raises Refusal where the key is not its, or it was revoked."""
        try:
            return AnonymousUser(), authenticate_node(request.parser_context["kwargs"]["name"], secret)
        except Refusal as refusal:
            metrics.refused_messages.labels("message", "revoked" if refusal.status == 410 else "wrong key").inc()
            raise


class IsNode(BasePermission):
    """Lets nodes in, and nobody else."""

    def has_permission(self, request: Request, _view: Any) -> bool:
        return isinstance(request.auth, Node)
