"""Who is asking, typed; whether they have lately shown it; other sites that say so; and what allauth asks this site.

It asks which names are good, what is kept of a provider's answer, and how secrets are stored.
"""

import base64
import hashlib
from collections.abc import Callable
from functools import wraps
from typing import Any
from urllib.parse import urlencode

import requests
from allauth.account.adapter import DefaultAccountAdapter, get_adapter
from allauth.account.decorators import reauthentication_required
from allauth.account.internal.flows import reauthentication
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialApp, SocialLogin
from cryptography.fernet import Fernet, MultiFernet
from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from portal.accounts.models import User, check_name
from portal.accounts.operators import has_second_factor
from portal.accounts.throttle import client_address
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
        request.session.pop(reauthentication.STATE_SESSION_KEY, None)
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


_NAMES = ("login", "preferred_username", "nickname", "name")
"""Where providers send a person's name."""


class AccountAdapter(DefaultAccountAdapter):  # type: ignore[misc]  # allauth has no types
    """Names by our rules, addresses behind our proxies."""

    def clean_username(self, username: str, shallow: bool = False) -> str:  # noqa: FBT001, FBT002 - allauth's signature
        if not shallow:
            try:
                check_name(User.normalize_username(username))
            except Refusal as refusal:
                raise ValidationError(refusal.sentences) from refusal
        return User.normalize_username(username)

    def is_open_for_signup(self, request: HttpRequest) -> bool:  # noqa: ARG002 - allauth's signature
        """Whether anybody may make an account, here or through another site."""
        return bool(settings.SIGN_UP == "open")

    def respond_user_inactive(self, request: HttpRequest, user: User) -> HttpResponse:
        """The page after signing in elsewhere to an account that operators closed."""
        return render(request, "account/account_inactive.html", {"closed_because": user.closed_because}, status=403)

    def get_reauthentication_methods(self, user: User) -> list[dict[str, Any]]:
        """Where a person shows again who they are: with their second factor, where they have one."""
        ways: list[dict[str, Any]] = super().get_reauthentication_methods(user)
        if user.is_authenticated and has_second_factor(user):
            return [way for way in ways if way["id"] != "reauthenticate"]
        return ways

    def get_reset_password_from_key_url(self, key: str) -> str:
        """The link in a mail, at this site's own name, whatever host the request named."""
        person, secret = key.split("-", 1)
        path = reverse("account_reset_password_from_key", kwargs={"uidb36": person, "key": secret})
        return f"{settings.SITE_URL}{path}"

    def get_email_confirmation_url(self, request: HttpRequest, emailconfirmation: Any) -> str:  # noqa: ARG002
        return f"{settings.SITE_URL}{reverse('account_confirm_email', args=[emailconfirmation.key])}"

    def get_client_ip(self, request: HttpRequest) -> str:
        """Where a request comes from, by the rule of all our limits."""
        return client_address(request)


class SocialAccountAdapter(DefaultSocialAccountAdapter):  # type: ignore[misc]  # allauth has no types
    """Of a provider's data about a person only the identifier and the name there are stored.

    No mail address is copied: accounts are found only by the provider's identifier, so that nobody can enter an account
    with its owner's address at another provider.
    """

    def populate_user(self, request: HttpRequest, sociallogin: SocialLogin, data: dict[str, Any]) -> User:
        """A new user with at most a proposed name."""
        given = sociallogin.account.extra_data
        merged = {**given.get("id_token", {}), **given.get("userinfo", {}), **given}
        names = [str(merged[key]) for key in _NAMES if merged.get(key)]
        sociallogin.account.extra_data = {"name": names[0][:100]} if names else {}
        sociallogin.email_addresses = []
        user: User = super().populate_user(request, sociallogin, {"username": data.get("username") or ""})
        return user


class MFAAdapter(DefaultMFAAdapter):  # type: ignore[misc]  # allauth has no types
    """Secrets of authenticator apps and recovery codes are stored encrypted with a key made from PKB_SECRET_KEY."""

    def encrypt(self, text: str) -> str:
        return str(_box().encrypt(text.encode()).decode())

    def decrypt(self, encrypted_text: str) -> str:
        """What was encrypted, with this key or an earlier one of SECRET_KEY_FALLBACKS."""
        return str(_box().decrypt(encrypted_text.encode()).decode())


def _box() -> MultiFernet:
    keys = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    digests = (hashlib.sha256(b"second factors\0" + key.encode()).digest() for key in keys)
    return MultiFernet([Fernet(base64.urlsafe_b64encode(digest)) for digest in digests])
