"""Who may call an endpoint at all; what belongs to whom is the queries' and actions' affair."""

from typing import Any

from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from portal.accounts.models import ApiToken
from portal.api.faults import ScopeMissing


class Scoped(BasePermission):
    """Holds whom an endpoint is open for. A browser's session has every scope, a token those it was given."""

    def has_permission(self, request: Request, view: Any) -> bool:
        """Whether the caller may use this method of the endpoint; ScopeMissing names a missing scope."""
        # Not annotated as Endpoint: REST framework imports this module while it is still defining APIView.
        scope = view.scope_for(request.method)
        if scope and isinstance(request.auth, ApiToken):
            also_enough = view.also_enough if request.method in SAFE_METHODS else ()
            if not {scope, *also_enough} & set(request.auth.scopes):
                raise ScopeMissing(str(scope))
        return view.is_open_for(request.method) or bool(request.user.is_authenticated)
