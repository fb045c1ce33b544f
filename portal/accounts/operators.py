"""Operators: staff with a second factor, their way into the admin, and the log of what they do outside it."""

from typing import Any

from allauth.mfa.models import Authenticator
from django.conf import settings
from django.contrib import messages
from django.contrib.admin import AdminSite
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.deprecation import MiddlewareMixin
from django.utils.http import url_has_allowed_host_and_scheme

from portal.accounts.models import User

_FACTORS = (Authenticator.Type.TOTP, Authenticator.Type.WEBAUTHN)


def has_second_factor(user: User) -> bool:
    """Whether `user` has set up an authenticator app or a passkey; signing in then asks for it."""
    return bool(Authenticator.objects.filter(user=user, type__in=_FACTORS).exists())


def drop_unproven_rights(user: User) -> User:
    """The same object with only the proven operator's rights.

    Called wherever a user is identified (a session, a token), so that no view or query has to check.
    """
    is_privileged = user.is_staff or user.is_superuser
    if is_privileged and settings.OPERATORS_NEED_SECOND_FACTOR and not has_second_factor(user):
        user.lacks_second_factor = True
        user.is_staff = user.is_superuser = False
    return user


class AccountBackend(ModelBackend):
    """Django's own, except that an operator without a second factor comes without an operator's rights."""

    def get_user(self, user_id: Any) -> User | None:
        """The user of a session, or None where the account is closed or gone."""
        user = super().get_user(user_id)
        return drop_unproven_rights(user) if isinstance(user, User) and user.left_at is None else None

    def has_perm(self, user_obj: Any, perm: str, obj: Any = None) -> bool:
        """Whether the user has a permission of the admin; only operators have any."""
        return bool(user_obj.is_staff) and super().has_perm(user_obj, perm, obj)


class OperatorsSite(AdminSite):
    """Django's admin without a form of its own for passwords, which would know no limit of tries."""

    site_header = site_title = "ParallelKernelBench: operators"
    enable_nav_sidebar = False  # or verdict and problem of an evaluation are out of view

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:  # noqa: ARG002
        """Lead visitors to sign in, and operators to the page where they set up a second factor."""
        wanted = request.GET.get("next", "")
        onwards = wanted if url_has_allowed_host_and_scheme(wanted, {request.get_host()}) else "/admin/"
        if self.has_permission(request):
            return redirect(onwards)
        if not isinstance(request.user, User):
            return redirect_to_login(onwards)
        if not request.user.lacks_second_factor:
            raise PermissionDenied
        messages.warning(request, "Operators need a second factor: add a passkey or an authenticator app first.")
        return redirect("mfa_index")


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
