"""How one operation's security is described: which calls are open, and which scope a token needs for the others."""

from typing import Any

from drf_spectacular.openapi import AutoSchema


class OperationSchema(AutoSchema):
    """Reads an endpoint's `signed_in` and `scopes`, which spectacular cannot see."""

    def get_auth(self) -> list[dict[str, Any]]:
        """The ways to be let in; the empty one stands for nobody in particular."""
        super().get_auth()  # registers the schemes in the components
        scope = getattr(self.view, "scopes", {}).get(self.method)
        ways: list[dict[str, Any]] = [{"token": [str(scope)] if scope else []}, {"session": []}]
        is_open = self.method not in getattr(self.view, "signed_in", ())
        return [*ways, {}] if is_open else ways
