"""Signing up, and the account page with its tokens. Signing in and out and new passwords are Django's own views."""

from django.contrib import messages
from django.contrib.auth import login
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from portal.accounts import actions, queries
from portal.accounts.forms import SignUpForm, TokenForm
from portal.accounts.identity import signed_in


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
        return redirect(wanted if is_ours else "catalog:problems")
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
