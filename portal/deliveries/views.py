"""The page on which a person chooses notices and channels."""

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from portal.accounts.identity import changing, signed_in
from portal.core.errors import Refusal
from portal.deliveries import actions, mailing, queries
from portal.deliveries.models import Endpoint, Form, NoticeKind


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def notices(request: HttpRequest) -> HttpResponse:
    """The reader's channels with their switches, a form for another one, and the log."""
    user = signed_in(request)
    if request.method != "POST":
        return _page(request)
    form, url = request.POST.get("form", ""), request.POST.get("url", "").strip()
    try:
        channel = actions.add_channel(user, form=form, url=url, kinds=request.POST.getlist("kinds"))
    except Refusal as refusal:
        return _page(request, refusal=refusal)
    return _page(request, new=channel)


def _page(request: HttpRequest, *, new: Endpoint | None = None, refusal: Refusal | None = None) -> HttpResponse:
    user = signed_in(request)
    context: dict[str, Any] = {
        "channels": list(queries.channels_of(user)),
        "kinds": NoticeKind.choices,
        "forms": [choice for choice in Form.choices if choice[0] != Form.MAIL or settings.EMAIL_URL],
        "sends_mail": bool(settings.EMAIL_URL),
        "mail_address": mailing.address_of(user) if settings.EMAIL_URL else None,
        "log": queries.log_of(user),
        "new": new,
        "refusal": refusal,
        "entered": request.POST if refusal else {},
        "chosen": request.POST.getlist("kinds") if refusal else NoticeKind.values,
    }
    response = render(request, "notices/notices.html", context, status=refusal.status if refusal else 200)
    response["Cache-Control"] = "private, no-store"
    return response


@changing
def set_kinds(request: HttpRequest, channel_id: int) -> HttpResponse:
    channel = queries.get_channel(signed_in(request), channel_id)
    actions.set_kinds(channel, kinds=request.POST.getlist("kinds"))
    messages.success(request, f"{channel.get_form_display()}: your choice was saved.")
    return redirect("notices:notices")


@changing
def test(request: HttpRequest, channel_id: int) -> HttpResponse:
    user = signed_in(request)
    actions.send_test(queries.get_channel(user, channel_id), by=user)
    messages.success(request, "A test is being sent. The log below will show its result.")
    return redirect("notices:notices")


@changing
def remove(request: HttpRequest, channel_id: int) -> HttpResponse:
    user = signed_in(request)
    actions.remove_endpoint(queries.get_channel(user, channel_id), by=user)
    messages.success(request, "The channel was removed.")
    return redirect("notices:notices")
