"""Signing up and in with a name and a password, new passwords, and the account page with its tokens.

What is asked after the password (a second factor), and every other way in, is allauth's: `sign_in_urls.py`.
"""

from typing import Any

from allauth.account.decorators import reauthentication_required
from allauth.account.internal.flows.login import perform_password_login
from allauth.account.models import Login
from allauth.account.views import PasswordResetFromKeyView
from allauth.socialaccount.adapter import get_adapter
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView, PasswordChangeView
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse, reverse_lazy
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from portal.accounts import actions, operators, organisations, throttle
from portal.accounts.forms import FirstPasswordForm, NewPasswordForm, PublicPageForm, SignInForm, SignUpForm, TokenForm
from portal.accounts.identity import changing, shown_again, signed_in
from portal.core.errors import by_id


def ways_in(request: HttpRequest) -> dict[str, Any]:
    providers = get_adapter().list_providers(request)
    return {"providers": providers, "sends_mail": bool(settings.EMAIL_URL), "sign_up": settings.SIGN_UP}


class SignIn(LoginView):
    """Django's view, with a limit on how often a password may be tried."""

    template_name = "accounts/sign_in.html"
    authentication_form = SignInForm
    redirect_authenticated_user = True

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(**kwargs) | ways_in(self.request)

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Sign in, or say when to try again: 429 with Retry-After, without looking at the password."""
        username = request.POST.get("username", "")
        self._tried = throttle.try_password(request, username)
        if self._tried.refused_by is None:
            return super().post(request, *args, **kwargs)
        # The name stays in its field, the password does not; a bound form would look at the password.
        form = self.authentication_form(request, initial={"username": username})
        context = {
            "form": form,
            "next": self.get_redirect_url(),
            "wait_s": self._tried.wait_s,
            "is_elsewhere": self._tried.refused_by is throttle.ACCOUNT,
            **ways_in(request),
        }
        response = render(request, "accounts/sign_in.html", context, status=429)
        response["Retry-After"] = str(self._tried.wait_s)
        return response

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        user = form.get_user()
        throttle.was_right(self._tried, self.request, user.username)
        onwards = Login(user=user, redirect_url=self.get_success_url())
        response: HttpResponse = perform_password_login(self.request, {"username": user.username}, onwards)
        throttle.remember_device(response, user.username)
        return response


class NewPasswordByMail(PasswordResetFromKeyView):  # type: ignore[misc]  # allauth has no types
    """allauth's view; who reads the account's mail signs in on this device, whatever strangers try meanwhile."""

    def form_valid(self, form: Any) -> HttpResponse:
        response: HttpResponse = super().form_valid(form)
        throttle.remember_device(response, self.reset_user.username)
        return response


@method_decorator(throttle.limited("code", throttle.CODES), name="dispatch")
class NewPassword(PasswordChangeView):
    """Django's view; who has no password yet makes the first one, after showing again who they are."""

    template_name = "accounts/password.html"
    success_url = reverse_lazy("accounts:profile")

    def get_form_class(self) -> Any:
        return NewPasswordForm if signed_in(self.request).has_usable_password() else FirstPasswordForm

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """A session that was left open may not give an account a password that it never had."""
        if request.user.is_authenticated and not request.user.has_usable_password():
            return shown_again(super().dispatch)(request, *args, **kwargs)
        return super().dispatch(request, *args, **kwargs)


@sensitive_post_parameters("password", "repeated")
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@throttle.limited("sign-up", throttle.SIGN_UPS)
def sign_up(request: HttpRequest) -> HttpResponse:
    """Create an account and sign it in; `next` leads on to where the reader came from."""
    if request.user.is_authenticated:
        return redirect("submissions:mine")
    wanted = request.POST.get("next", request.GET.get("next", ""))
    is_ours = url_has_allowed_host_and_scheme(wanted, allowed_hosts={request.get_host()})
    form = SignUpForm(request.POST or None)
    user = form.attempt(actions.sign_up)
    if user is not None:
        messages.success(
            request, f"Welcome, {user.username}. Choose a problem to begin: the editor starts with a program that runs."
        )
        onwards = Login(user=user, redirect_url=wanted if is_ours else reverse("explorer:problems"))
        response: HttpResponse = perform_password_login(request, {"username": user.username}, onwards)
        throttle.remember_device(response, user.username)
        return response
    context = {"form": form, "next": wanted if is_ours else "", **ways_in(request)}
    if settings.SIGN_UP == "closed":
        return render(request, "account/signup_closed.html", status=403)
    return render(request, "accounts/sign_up.html", context, status=form.status)


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@login_required
@reauthentication_required(enabled=lambda request: request.method == "POST")  # type: ignore[untyped-decorator]
def profile(request: HttpRequest) -> HttpResponse:
    """The account with its tokens; a new token's secret is shown in this one response and never again."""
    user = signed_in(request)
    form = TokenForm(request.POST or None)
    token, secret = form.attempt(actions.create_token, user) or (None, "")
    context = {
        "form": TokenForm() if token else form,
        "tokens": [(row, row.is_live(now=timezone.now())) for row in user.tokens.all()],
        "invitations": list(organisations.open_invitations(user)),
        "has_second_factor": operators.has_second_factor(user),
        "new_token": token,
        "secret": secret,
        **ways_in(request),
    }
    return render(request, "accounts/profile.html", context, status=form.status)


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@login_required
def public_page(request: HttpRequest) -> HttpResponse:
    """Display name, affiliation and link of the reader's public page."""
    user = signed_in(request)
    form = PublicPageForm(request.POST or None, instance=user)
    if request.method == "POST" and form.is_valid():
        # The form's fields alone: an operator's rights that are not proven stay as they are.
        user.save(update_fields=PublicPageForm.Meta.fields)
        messages.success(request, "Your public page was changed.")
        return redirect("ranking:person", user.username)
    return render(request, "accounts/public.html", {"form": form}, status=422 if form.errors else 200)


@changing
def revoke_token(request: HttpRequest, token_id: int) -> HttpResponse:
    tokens, remedy = signed_in(request).tokens.all(), "Choose one from your account page."
    token = by_id(tokens, "token", token_id, "You have no such token.", remedy)
    actions.revoke_token(token)
    messages.success(request, f"The token {token.prefix}... was revoked.")
    return redirect("accounts:profile")
