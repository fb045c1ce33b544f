"""Signing up, and the account page with its tokens. Signing in and out and new passwords are Django's own views."""

from typing import Any

from django.contrib import messages
from django.contrib.auth import login
from django.contrib.auth.decorators import login_required
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from portal.accounts import actions, memberships, queries, throttle
from portal.accounts.forms import SignInForm, SignUpForm, TokenForm
from portal.accounts.identity import signed_in


class SignIn(LoginView):
    """Django's view, with a limit on how often a password may be tried."""

    template_name = "accounts/sign_in.html"
    authentication_form = SignInForm
    redirect_authenticated_user = True

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Sign in, or say when to try again: 429 with Retry-After, without looking at the password."""
        username = request.POST.get("username", "")
        wait_s = throttle.seconds_to_wait(username, throttle.client_address(request))
        if not wait_s:
            return super().post(request, *args, **kwargs)
        # The name stays in its field, the password does not; a bound form would look at the password.
        form = self.authentication_form(request, initial={"username": username})
        context = {"form": form, "next": self.get_redirect_url(), "wait_s": wait_s}
        response = render(request, "accounts/sign_in.html", context, status=429)
        response["Retry-After"] = str(wait_s)
        return response

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        """Count the failure and show the form again."""
        throttle.note_failure(self.request.POST.get("username", ""), throttle.client_address(self.request))
        return super().form_invalid(form)

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        """Sign in."""
        throttle.forget(self.request.POST.get("username", ""), throttle.client_address(self.request))
        return super().form_valid(form)


@sensitive_post_parameters("password", "repeated")
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def sign_up(request: HttpRequest) -> HttpResponse:
    """Create an account and sign it in; `next` leads on to where the reader came from."""
    if request.user.is_authenticated:
        return redirect("submissions:mine")
    wanted = request.POST.get("next", request.GET.get("next", ""))
    is_ours = url_has_allowed_host_and_scheme(wanted, allowed_hosts={request.get_host()})
    form = SignUpForm(request.POST or None)
    user = form.sign_up() if form.is_valid() else None
    if user is not None:
        login(request, user)
        messages.success(request, f"Welcome, {user.username}. Choose a problem: its editor opens with a starter.")
        return redirect(wanted if is_ours else "explorer:problems")
    context = {"form": form, "next": wanted if is_ours else ""}
    return render(request, "accounts/sign_up.html", context, status=form.status if form.errors else 200)


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@login_required
def profile(request: HttpRequest) -> HttpResponse:
    """The account with its tokens; a new token's secret is shown in this one response and never again."""
    user = signed_in(request)
    form = TokenForm(request.POST or None)
    created = form.create(user) if form.is_valid() else None
    token, secret = created if created is not None else (None, "")
    context = {
        "form": TokenForm() if token else form,
        "tokens": [(row, row.is_live(now=timezone.now())) for row in queries.own_tokens(user)],
        "invitations": list(memberships.open_invitations(user)),
        "new_token": token,
        "secret": secret,
    }
    return render(request, "accounts/profile.html", context, status=form.status if form.errors else 200)


@require_POST
@login_required
def revoke_token(request: HttpRequest, token_id: int) -> HttpResponse:
    """End the life of one of the reader's own tokens."""
    token = queries.get_token(signed_in(request), token_id)
    actions.revoke_token(token)
    messages.success(request, f"The token {token.prefix}... was revoked.")
    return redirect("accounts:profile")
