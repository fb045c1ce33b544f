"""Who is asking, typed, and whether they have lately shown who they are."""

from collections.abc import Callable
from functools import wraps
from typing import Any
from urllib.parse import urlencode

from allauth.account.adapter import get_adapter
from allauth.account.internal.flows import reauthentication
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from portal.accounts.models import User

View = Callable[..., HttpResponseBase]


def signed_in(request: HttpRequest) -> User:
    """The user of a request that `login_required` let through; raises PermissionDenied for anyone else."""
    if not isinstance(request.user, User):
        raise PermissionDenied
    return request.user


def changing(view: View) -> View:
    """A decorator: the view changes something for a reader who is signed in, by POST alone."""
    return require_POST(login_required(view))


def shown_again(view: View) -> View:
    """A decorator: the page is for a reader who has just shown again who they are, and others are asked first.

    Unlike allauth's `reauthentication_required` it keeps no form that was sent before: a stranger at a session that was
    left open may have sent it, and its owner would confirm it unseen.
    """

    @wraps(view)
    def page(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not reauthentication.is_reauthentication_required(request, app=""):
            return view(request, *args, **kwargs)
        request.session.pop(reauthentication.STATE_SESSION_KEY, None)
        way = get_adapter().get_reauthentication_methods(request.user)[0]
        return redirect(f"{way['url']}?{urlencode({'next': request.get_full_path()})}")

    return page
