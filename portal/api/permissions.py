"""Who may call an endpoint at all; what belongs to whom is the queries' and actions' affair."""

from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from portal.accounts.models import ApiToken
from portal.api.faults import ScopeMissing


def also_enough(view: object) -> frozenset[str]:
    """Scopes that open the endpoint too, which then shows less."""
    return getattr(view, "also_enough", frozenset())


class Scoped(BasePermission):
    """Holds an endpoint's `signed_in` and `scopes`. A browser's session has every scope, a token those it was given."""

    def has_permission(self, request: Request, view: object) -> bool:
        """Whether the caller may use this method of the endpoint; ScopeMissing names a missing scope."""
        # Not annotated as Endpoint: REST framework imports this module while it is still defining APIView.
        scope = getattr(view, "scopes", {}).get(request.method)
        if scope and isinstance(request.auth, ApiToken) and not {scope, *also_enough(view)} & set(request.auth.scopes):
            raise ScopeMissing(str(scope))
        return request.method not in getattr(view, "signed_in", ()) or bool(request.user.is_authenticated)
