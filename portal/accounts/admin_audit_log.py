"""Operators' actions outside the admin are logged with those in it, in Django's log of the admin.

The log is read in the admin and changed nowhere: who, what, on what, when, and the reason where the form asks for one.
"""

from django.contrib.admin.models import CHANGE, LogEntry
from django.http import HttpRequest, HttpResponse
from django.utils.deprecation import MiddlewareMixin

from portal.accounts.models import User

_READING = ("GET", "HEAD", "OPTIONS", "TRACE")
_OWN_AFFAIRS = ("/admin/", "/accounts/")
"""The admin writes its own log; an operator's changes to their own account are not logged."""
MAX_REASON = 1000


class OperatorsLogMiddleware(MiddlewareMixin):
    """Writes a line for every request of an operator that changed something, by page or by API."""

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        if request.method not in _READING and response.status_code < 400:
            # REST framework puts the owner of a token onto the same request.
            user = getattr(request, "user", None)
            if isinstance(user, User) and user.is_staff:
                _note(request, user)
        return response


def _note(request: HttpRequest, user: User) -> None:
    if request.path.startswith(_OWN_AFFAIRS) or request.resolver_match is None:
        return
    ids = [str(value) for value in request.resolver_match.kwargs.values()]
    # The body of an API call was read by REST framework and is gone.
    reason = "" if request.path.startswith("/api/") else request.POST.get("reason", "")[:MAX_REASON]
    LogEntry.objects.create(
        user_id=user.pk,
        action_flag=CHANGE,
        object_id=ids[0] if ids else "",
        object_repr=request.path[:200],
        change_message=f"{request.resolver_match.view_name}{': ' if reason else ''}{reason}",
    )
