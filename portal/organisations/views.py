"""The pages of organisations: people and invitations, what they use of their quota, webhooks and their logs."""

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from portal.accounts import organisations
from portal.accounts.identity import changing, signed_in
from portal.accounts.models import Organisation, Role
from portal.deliveries import actions, queries
from portal.deliveries.models import Endpoint
from portal.organisations.forms import InviteForm, OrganisationForm, WebhookForm
from portal.runs.queries import use_by_run, visible_runs
from portal.submissions.quotas import limits_of, payer_of_runs, quota_of

LOGGED = 50
"""Deliveries on one page of a webhook's log."""


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def index(request: HttpRequest) -> HttpResponse:
    """The reader's organisations and what they are invited to, and the form of a new one."""
    user = signed_in(request)
    form = OrganisationForm(request.POST or None)
    made = form.attempt(organisations.create_organisation, user)
    if made is not None:
        messages.success(request, f"{made.name} was created. Invite others below, or create its first run.")
        return redirect("organisations:organisation", made.slug)
    context = {
        "form": form,
        "rows": [(own, organisations.role_in(user, own)) for own in organisations.own_organisations(user)],
        "invitations": list(organisations.open_invitations(user)),
    }
    return render(request, "organisations/index.html", context, status=form.status)


@require_safe
@never_cache
@login_required
def organisation(request: HttpRequest, slug: str) -> HttpResponse:
    return _page(request, organisations.get_organisation(signed_in(request), slug))


def _page(request: HttpRequest, chosen: Organisation, **more: Any) -> HttpResponse:
    user, now = signed_in(request), timezone.now()
    role = organisations.role_in(user, chosen)
    context = {
        "organisation": chosen,
        "role": role,
        "is_owner": role == Role.OWNER or user.is_staff,
        "members": list(chosen.memberships.select_related("user")),
        "sent": list(organisations.open_invitations(chosen)),
        "allowances": limits_of(payer_of_runs(chosen), now=now),
        "quota": quota_of(chosen, now=now),
        "uses": use_by_run(chosen, now=now),
        "webhooks": list(chosen.webhooks.filter(removed_at=None)),
        "run_count": visible_runs(user).filter(model__organisation=chosen).count(),
        "roles": Role.choices,
        "invite_form": InviteForm(),
        "webhook_form": WebhookForm(),
        **more,
    }
    failed = next((form for form in more.values() if getattr(form, "errors", None)), None)
    return render(request, "organisations/organisation.html", context, status=failed.status if failed else 200)


@changing
def invite(request: HttpRequest, slug: str) -> HttpResponse:
    chosen = organisations.get_organisation(signed_in(request), slug)
    form = InviteForm(request.POST)
    invitation = form.attempt(organisations.invite, chosen, by=signed_in(request))
    if invitation is None:
        return _page(request, chosen, invite_form=form)
    messages.success(request, f"{invitation.invited} was invited. The invitation is on their page Organisations.")
    return redirect("organisations:organisation", slug)


@changing
def withdraw(request: HttpRequest, slug: str, invitation_id: int) -> HttpResponse:
    chosen = organisations.get_organisation(signed_in(request), slug)
    invitation = organisations.get_invitation(organisations.open_invitations(chosen), invitation_id)
    organisations.withdraw(invitation, by=signed_in(request))
    messages.success(request, f"The invitation of {invitation.invited} was withdrawn.")
    return redirect("organisations:organisation", slug)


@changing
def change_role(request: HttpRequest, slug: str) -> HttpResponse:
    chosen = organisations.get_organisation(signed_in(request), slug)
    username, role = request.POST.get("username", ""), request.POST.get("role", "")
    changed = organisations.change_role(chosen, username=username, role=role, by=signed_in(request))
    messages.success(request, f"{username} is now {changed.get_role_display().lower()}.")
    return redirect("organisations:organisation", slug)


@changing
def remove_member(request: HttpRequest, slug: str) -> HttpResponse:
    user = signed_in(request)
    chosen = organisations.get_organisation(user, slug)
    username = request.POST.get("username", "")
    organisations.remove_member(chosen, username=username, by=user)
    if username == user.username:
        messages.success(request, f"You have left {chosen.name}.")
        return redirect("organisations:index")
    messages.success(request, f"{username} was removed from the organisation.")
    return redirect("organisations:organisation", slug)


@changing
def accept(request: HttpRequest, invitation_id: int) -> HttpResponse:
    user = signed_in(request)
    invitation = organisations.get_invitation(organisations.open_invitations(user), invitation_id)
    joined = organisations.accept(invitation, by=user).organisation
    messages.success(request, f"You are now a member of {joined.name}.")
    return redirect("organisations:organisation", joined.slug)


@changing
def decline(request: HttpRequest, invitation_id: int) -> HttpResponse:
    user = signed_in(request)
    invitation = organisations.get_invitation(organisations.open_invitations(user), invitation_id)
    organisations.decline(invitation, by=user)
    messages.success(request, f"You have declined the invitation to {invitation.organisation.name}.")
    return redirect("organisations:index")


@require_POST
@never_cache
@login_required
def add_webhook(request: HttpRequest, slug: str) -> HttpResponse:
    """Add an address; its secret is shown in this one response and never again."""
    chosen = organisations.get_organisation(signed_in(request), slug)
    form = WebhookForm(request.POST)
    webhook = form.attempt(actions.add_webhook, chosen, by=signed_in(request))
    if webhook is None:
        return _page(request, chosen, webhook_form=form)
    return _page(request, chosen, new_webhook=webhook)


@require_safe
@login_required
def webhook(request: HttpRequest, slug: str, webhook_id: int) -> HttpResponse:
    chosen = organisations.get_organisation(signed_in(request), slug)
    found = queries.get_webhook(chosen, webhook_id)
    log = found.deliveries.select_related("event__run__model", "event__attempt")
    context = {
        "organisation": chosen,
        "webhook": found,
        "page": Paginator(log, LOGGED).get_page(request.GET.get("page")),
        "is_owner": organisations.role_in(signed_in(request), chosen) == Role.OWNER or signed_in(request).is_staff,
        "is_left_alone": found.removed_at is None and found.failures > 0 and found.free_at > timezone.now(),
    }
    return render(request, "organisations/webhook.html", context)


@changing
def try_webhook(request: HttpRequest, slug: str, webhook_id: int) -> HttpResponse:
    actions.send_test(_webhook(request, slug, webhook_id), by=signed_in(request))
    messages.success(request, "A test is being sent. The log below will show the response.")
    return redirect("organisations:webhook", slug, webhook_id)


@changing
def remove_webhook(request: HttpRequest, slug: str, webhook_id: int) -> HttpResponse:
    actions.remove_endpoint(_webhook(request, slug, webhook_id), by=signed_in(request))
    messages.success(request, "The webhook was removed. Its log stays.")
    return redirect("organisations:organisation", slug)


def _webhook(request: HttpRequest, slug: str, webhook_id: int) -> Endpoint:
    return queries.get_webhook(organisations.get_organisation(signed_in(request), slug), webhook_id)
