"""Notices by mail, where the operator has set mail up: to the account's own confirmed address and no other."""

import smtplib

from allauth.account.models import EmailAddress
from django.conf import settings
from django.core.mail import EmailMessage

from portal.accounts.models import User
from portal.deliveries.outbound_http import HttpResult


def address_of(user: User) -> str | None:
    """The confirmed address of an account; None where it has none."""
    found = EmailAddress.objects.filter(user=user, verified=True).order_by("-primary", "pk").first()
    return found.email if found is not None else None


def send(user: User, *, subject: str, body: str) -> HttpResult:
    """Send one mail; the result names the error."""
    address = address_of(user)
    if not settings.EMAIL_URL or address is None:
        reason = "The account has no confirmed mail address." if settings.EMAIL_URL else "This site sends no mail."
        return HttpResult(status=None, error=reason)
    headers = {"Auto-Submitted": "auto-generated"}
    try:
        EmailMessage(subject, body, settings.DEFAULT_FROM_EMAIL, [address], headers=headers).send()
    except (smtplib.SMTPException, OSError) as error:
        return HttpResult(status=None, error=f"The mail server refused it: {type(error).__name__}")
    return HttpResult(status=250)
