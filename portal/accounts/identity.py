"""Who is asking, typed; whether they have lately shown who they are; and going to other sites that say so, and back."""

from collections.abc import Callable
from functools import wraps
from typing import Any
from urllib.parse import urlencode

import requests
from allauth.account.adapter import get_adapter
from allauth.account.decorators import reauthentication_required
from allauth.account.internal.flows import reauthentication
from allauth.account.internal.flows.reauthentication import STATE_SESSION_KEY
from allauth.socialaccount.models import SocialApp
from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from portal.accounts.models import User
from portal.core.errors import NotFound, Refusal

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


def to_other_site(view: View) -> View:
    """A provider's sign-in, which goes there by a page of ours: our policy forbids forms to end at other sites."""

    @never_cache
    @reauthentication_required(enabled=lambda request: request.GET.get("process") == "connect")  # type: ignore[untyped-decorator]
    @wraps(view)
    def leave(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        response = _asked(view, request, *args, **kwargs)
        address = response.get("Location", "")
        if response.status_code != 302 or url_has_allowed_host_and_scheme(address, {request.get_host()}):
            return response
        return render(request, "accounts/leaving.html", {"address": address})

    leaving: View = leave
    return leaving


def returning_from(view: View) -> View:
    """A provider's response. A provider that is not configured has none; one that cannot be reached is an error."""

    @never_cache
    @wraps(view)
    def come_back(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        response = _asked(view, request, *args, **kwargs)
        # An account there that was to be added is not kept until the reader shows again who they are: a stranger at an
        # open session may have left theirs.
        request.session.pop(STATE_SESSION_KEY, None)
        return response

    return come_back


def where_mail_is_set_up(view: View) -> View:
    """A page that makes no sense on a site that sends no mail; raises Refusal (404) there."""

    @wraps(view)
    def sending(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not settings.EMAIL_URL:
            raise NotFound("", "", "This site sends no mail.", "Ask its operator to set a new password for you.")
        return view(request, *args, **kwargs)

    return sending


def _asked(view: View, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
    try:
        return view(request, *args, **kwargs)
    except SocialApp.DoesNotExist as error:
        raise Http404 from error
    except requests.RequestException as error:
        remedy = "Try again in a minute, or sign in another way."
        raise Refusal("provider", "", "The other site does not respond.", remedy, status=502) from error
