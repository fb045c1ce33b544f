"""What allauth asks this site: which names are good, what is kept of a provider's answer, how secrets are stored."""

import base64
import hashlib
from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialLogin
from cryptography.fernet import Fernet, MultiFernet
from django.conf import settings
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from portal.accounts.models import User, check_name
from portal.accounts.operators import has_second_factor
from portal.accounts.throttle import client_address
from portal.core.errors import Refusal

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
