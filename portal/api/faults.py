"""Refusals of a credential, as REST framework wants them raised; apart, because its settings import them early."""

from rest_framework import exceptions

from portal.core.errors import Refusal


class TokenRefused(exceptions.AuthenticationFailed):
    """A credential that cannot be used, and the refusal that says why."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class ScopeMissing(exceptions.PermissionDenied):
    """The token is valid but may not do this."""

    def __init__(self, scope: str) -> None:
        super().__init__(f"This token lacks the scope {scope!r}.")
        self.scope = scope
