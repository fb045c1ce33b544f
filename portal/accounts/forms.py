"""Signing up, signing in, and making a token."""

from collections.abc import Callable
from functools import partial
from typing import Any

from allauth.account.forms import ResetPasswordForm as AnyResetPasswordForm
from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.forms import ActivateTOTPForm
from allauth.mfa.totp.internal.auth import TOTP
from allauth.mfa.webauthn.forms import AddWebAuthnForm
from allauth.socialaccount.forms import SignupForm
from django import forms
from django.contrib.auth.forms import AuthenticationForm, PasswordChangeForm, SetPasswordForm
from django.core.exceptions import ValidationError
from django.core.validators import URLValidator
from django.db import IntegrityError, transaction
from django.http import HttpRequest

from portal.accounts.actions import check_password
from portal.accounts.models import MAX_NAME, TokenScope, User, check_name, name_taken
from portal.core.errors import ActionForm, Refusal

_FOLLOWED = URLValidator(
    ("https", "http"), message="The address begins with neither https:// nor http://. Copy it from your browser."
)
"""Of an address that readers can follow."""
LIFETIMES = ((30, "30 days"), (90, "90 days"), (180, "180 days"), (365, "1 year"))


def _name_field() -> forms.CharField:
    return forms.CharField(
        label="Name",
        max_length=MAX_NAME,
        help_text=(
            "Your public name on the boards. Use letters a to z, digits and @ . + - _; begin with a letter or a digit."
        ),
        widget=forms.TextInput(attrs={"autocomplete": "username", "autocapitalize": "none", "spellcheck": "false"}),
    )


class SignUpForm(ActionForm):
    """A public name and a password."""

    username = _name_field()
    password = forms.CharField(
        label="Password",
        strip=False,
        help_text="At least 8 characters, not a common one.",
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )
    repeated = forms.CharField(
        label="Password again", strip=False, widget=forms.PasswordInput(attrs={"autocomplete": "new-password"})
    )

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if cleaned.get("password") and cleaned.get("repeated") and cleaned["password"] != cleaned["repeated"]:
            self.add_error("repeated", "The two passwords differ. Type the same one twice.")
        # All that is wrong at once. The action asks again, for whoever comes another way.
        checks: dict[str, Callable[[str], None]] = {
            "password": lambda password: check_password(User(username=cleaned.get("username", "")), password),
            "username": check_name,
        }
        for name, check in checks.items():
            try:
                if name in cleaned:
                    check(cleaned[name])
            except Refusal as refusal:
                self.refuse(refusal)
        return cleaned

    def values(self) -> dict[str, Any]:
        return {name: value for name, value in self.cleaned_data.items() if name != "repeated"}


class SocialSignUpForm(SignupForm):  # type: ignore[misc]  # allauth has no types
    """The public name of a person who signs up through another site."""

    fields: dict[str, forms.Field]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        proposed = self.fields["username"].initial
        self.fields = {"username": _name_field()}
        self.fields["username"].initial = proposed

    def save(self, request: HttpRequest) -> User:
        """The new account; raises Refusal if another request took the name first."""
        try:
            with transaction.atomic():
                user: User = super().save(request)
        except IntegrityError as error:
            raise name_taken(self.cleaned_data["username"]) from error
        return user


class SignInForm(AuthenticationForm):
    """Name and password, with a message that names neither as the wrong one."""

    error_messages = {
        "invalid_login": "Wrong name or password. Passwords are case-sensitive.",
        "inactive": "An operator closed this account%(reason)s. Ask the operator before you create another one.",
    }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["username"].label = "Name"

    def get_invalid_login_error(self) -> ValidationError:
        """Wrong name or password; who knows the password of a closed account reads why it was closed."""
        user = User.objects.filter(username=self.cleaned_data.get("username"), is_active=False, left_at=None).first()
        if user is None or not user.check_password(self.cleaned_data.get("password", "")):
            return super().get_invalid_login_error()
        reason = f": {user.closed_because.rstrip('.')}" if user.closed_because else ""
        return ValidationError(self.error_messages["inactive"], code="inactive", params={"reason": reason})


class FirstPasswordForm(SetPasswordForm):  # type: ignore[type-arg]
    """For an account that so far signs in elsewhere; the lists of rules are left to the error messages."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["new_password1"].help_text = "At least 8 characters, not a common one."


class NewPasswordForm(FirstPasswordForm, PasswordChangeForm):
    """The same for an account that has a password, which it asks for."""


class ResetPasswordForm(AnyResetPasswordForm):  # type: ignore[misc]  # allauth has no types
    """A link to a new password goes to confirmed addresses alone: whoever typed another may not be its owner."""

    users: list[User]

    def clean_email(self) -> str:
        """The address; who gets a mail is in `users`."""
        email: str = super().clean_email()
        confirmed = EmailAddress.objects.filter(email=email.lower(), verified=True).values_list("user", flat=True)
        self.users = [user for user in self.users if user.pk in confirmed]
        return email


class ActivateAppForm(ActivateTOTPForm):  # type: ignore[misc]  # allauth has no types
    """allauth's form; the code that turns the app on does not sign in as well."""

    def clean_code(self) -> str:
        code: str = super().clean_code()
        TOTP(Authenticator(user=self.user))._mark_code_used(code)  # noqa: SLF001 - allauth has no other name for it
        return code


class AddPasskeyForm(AddWebAuthnForm):  # type: ignore[misc]  # allauth has no types
    """allauth's form with our texts; a passkey signs in without a password unless it shall only be a second factor."""

    fields: dict[str, forms.Field]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["name"].help_text = "A name for your own list, for example: phone."
        alone = self.fields["passwordless"]
        alone.label, alone.initial = "Sign in without a password", True
        alone.help_text = "Your device then asks for a fingerprint, your face or its PIN instead of a password."


class PublicPageForm(forms.ModelForm):  # type: ignore[type-arg]
    """What a person's public page says besides the name."""

    class Meta:
        model = User
        fields = ("display_name", "affiliation", "website")
        field_classes = {"website": partial(forms.URLField, assume_scheme="https", validators=[_FOLLOWED])}


class TokenForm(ActionForm):
    """What a new token is for, what it may do and how long it lives."""

    name = forms.CharField(
        label="Name", max_length=80, help_text="The device or program that uses the token, for example: laptop."
    )
    scopes = forms.MultipleChoiceField(
        label="Scopes",
        choices=TokenScope.choices,
        widget=forms.CheckboxSelectMultiple,
        initial=[TokenScope.READ, TokenScope.SUBMIT],
    )
    lifetime_days = forms.TypedChoiceField(label="Expires after", choices=LIFETIMES, coerce=int, initial=90)
