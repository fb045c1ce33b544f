"""Invitations to the site: codes that operators make, each for one account and for some days."""

import hashlib
import secrets
from datetime import datetime
from enum import StrEnum

from django.conf import settings
from django.utils import timezone

from portal.accounts.models import SignUpCode, User
from portal.core.errors import Forbidden, Refusal


class SignUp(StrEnum):
    """Who may create an account: everybody, holders of a code, or nobody (`PKB_SIGN_UP`)."""

    OPEN = "open"
    INVITATION = "invitation"
    CLOSED = "closed"


def sign_up_is() -> SignUp:
    return SignUp(settings.SIGN_UP)


def make_code(*, note: str, expires_at: datetime, by: User | None) -> tuple[SignUpCode, str]:
    """A new code: its row, and the code itself, which is not stored."""
    code = secrets.token_urlsafe(15)
    row = SignUpCode.objects.create(digest=_digest(code), note=note[:200], expires_at=expires_at, made_by=by)
    return row, code


def check(code: str) -> None:
    """Refuse a sign-up that the site's setting does not allow; raises Refusal (403)."""
    mode = sign_up_is()
    if mode is SignUp.CLOSED:
        raise Forbidden("", "", "This site takes no new accounts.", "Ask its operator.")
    if mode is SignUp.INVITATION and not SignUpCode.objects.filter(**_live(code)).exists():
        raise _refused()


def use(code: str, *, by: User) -> None:
    """Use the code up, in the transaction that makes the account; raises Refusal (403) where another was faster."""
    if sign_up_is() is SignUp.INVITATION:
        # The conditional update lets only one of two requests at once have it.
        now = timezone.now()
        if not SignUpCode.objects.filter(**_live(code)).update(used_by=by, used_at=now):
            raise _refused()


def _live(code: str) -> dict[str, object]:
    return {"digest": _digest(code), "used_at": None, "expires_at__gt": timezone.now()}


def _digest(code: str) -> str:
    return hashlib.sha256(code.strip().encode()).hexdigest()


def _refused() -> Refusal:
    remedy = "Check it for missing characters, or ask the operator of this site for a new one."
    return Forbidden("code", "", "This invitation code is unknown, used or expired.", remedy)
