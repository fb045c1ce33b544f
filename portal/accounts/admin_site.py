"""The admin's way in: operators sign in where everybody does, under the same limits, and with a second factor."""

from typing import Any

from django.contrib import messages
from django.contrib.admin import AdminSite
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.http import url_has_allowed_host_and_scheme

from portal.accounts.models import User


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
