"""Every write to accounts: signing up, making and revoking API tokens, and signing in with one."""

import hashlib
import secrets
from collections.abc import Iterable
from datetime import timedelta

from django.conf import settings
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from portal.accounts.models import OWN_AUTHOR, ApiToken, TokenScope, User, check_name, name_taken
from portal.accounts.operators import drop_unproven_rights
from portal.core.errors import Conflict, Forbidden, NotSignedIn, Refusal, check_choice

TOKEN_PREFIX = "pkb_"  # noqa: S105 - marks our tokens for secret scanners, is not one
MAX_LIFETIME_DAYS = 366
MAX_LIVE_TOKENS = 20


def sign_up(*, username: str, password: str, email: str = "") -> User:
    """Create an account that can sign in at once.

    Raises:
        Refusal: sign-up is closed (403), the name is malformed or taken (409), or the password is too weak.
    """
    if settings.SIGN_UP == "closed":
        raise Forbidden("", "", "This site takes no new accounts.", "Ask its operator.")
    user = User(username=User.normalize_username(username), email=User.objects.normalize_email(email))
    check_name(user.username)
    try:
        user.clean_fields(exclude=["password"])
    except ValidationError as error:
        field, messages = next(iter(error.message_dict.items()))
        value = str(getattr(user, field, ""))
        raise Refusal(field, value, " ".join(messages), "Correct it and send the form again.") from error
    check_password(user, password)
    user.set_password(password)
    try:
        with transaction.atomic():
            user.save()
    except IntegrityError as error:
        raise name_taken(username) from error
    return user


def own_author() -> User:
    """The account of this site's own entries, which nobody can sign in with; raises Refusal (409) where one can."""
    author, is_new = User.objects.get_or_create(username=OWN_AUTHOR)
    if is_new:
        author.set_unusable_password()
        author.save(update_fields=["password"])
    if author.has_usable_password():
        message = f"The account {OWN_AUTHOR!r} belongs to somebody who can sign in."
        raise Conflict("username", OWN_AUTHOR, message, "Rename that account first.")
    return author


def set_active(user: User, *, is_active: bool, by: User, reason: str = "") -> None:
    """Close an account, or open it again. A closed one cannot sign in or use tokens, and its entries leave the boards.

    Its owner reads the `reason` where they try to sign in, and in what the API answers to their tokens.

    Raises:
        Refusal: `by` is no operator (403), or would close their own account (409).
    """
    if not by.is_staff:
        message = "Only an operator can close or open accounts."
        raise Forbidden("user", user.username, message, "Ask the operator of this site.")
    if user.pk == by.pk:
        raise Conflict("user", user.username, "This is your own account.", "Ask another operator.")
    user.is_active = is_active
    user.closed_because = "" if is_active else reason.strip()[:1000]
    user.save(update_fields=["is_active", "closed_because"])


def create_token(user: User, *, name: str, scopes: Iterable[str], lifetime_days: int) -> tuple[ApiToken, str]:
    """Create a token; returns its row and the secret, which is not stored.

    Raises:
        Refusal: the name is empty, a scope is unknown, the lifetime is out of range, or there are too many tokens.
    """
    now = timezone.now()
    chosen = sorted(check_choice("scopes", scope, TokenScope.values, noun="scope") for scope in set(scopes))
    if not chosen:
        raise Refusal("scopes", "", "The token has no scope.", "Choose at least one scope.")
    if not name.strip():
        remedy = "Give the token a name, for example that of the program that uses it."
        raise Refusal("name", name, "The name is empty.", remedy)
    if not 1 <= lifetime_days <= MAX_LIFETIME_DAYS:
        message = f"A token can be valid for 1 to {MAX_LIFETIME_DAYS} days."
        raise Refusal("lifetime_days", lifetime_days, message, "Choose a number of days in that range.")
    secret = TOKEN_PREFIX + secrets.token_urlsafe(32)
    with transaction.atomic():
        # The lock keeps two requests at once from both finding room for the last token.
        lock_account(user)
        if user.tokens.filter(revoked_at=None, expires_at__gt=now).count() >= MAX_LIVE_TOKENS:
            message = f"You have {MAX_LIVE_TOKENS} live tokens, which is the limit."
            raise Conflict("", user.username, message, "Revoke one that you no longer use.")
        token = ApiToken.objects.create(
            user=user,
            name=name.strip()[:80],
            prefix=secret[:12],
            digest=_digest(secret),
            scopes=chosen,
            created_at=now,
            expires_at=now + timedelta(days=lifetime_days),
        )
    return token, secret


def lock_account(user: User) -> None:
    """Lock the user's row until the transaction ends, so that no other request passes the checks that count rows.

    Whoever deletes their account holds the same lock: what they asked for at the same time comes before, or is refused.

    Raises:
        TransactionManagementError: no transaction is open, so that nothing would be locked.
        User.DoesNotExist: the account is gone.
        Refusal: its owner has deleted it (401).
    """
    if not connection.in_atomic_block:
        raise transaction.TransactionManagementError(f"the row of {user} was to be locked outside a transaction")
    left_at = User.objects.select_for_update().values_list("left_at", flat=True).get(pk=user.pk)
    if left_at is not None:
        raise _left(user)


def revoke_token(token: ApiToken) -> None:
    """End a token's life now; revoking twice changes nothing."""
    ApiToken.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=timezone.now())
    token.refresh_from_db(fields=["revoked_at"])


def authenticate(secret: str) -> ApiToken:
    """The live token with this secret; notes that it was used.

    Raises:
        Refusal: the token is unknown, revoked or expired, or its owner's account is closed (401 each).
    """
    now = timezone.now()
    token = ApiToken.objects.select_related("user").filter(digest=_digest(secret)).first()
    if token is None:
        raise _unauthorized(
            "", "The token is unknown.", "Check it for missing characters, or create a new one on your account page."
        )
    if token.revoked_at is not None:
        raise _unauthorized(token.prefix, "The token has been revoked.", "Create a new one on your account page.")
    if not token.is_live(now=now):
        expiry = f"{token.expires_at:%Y-%m-%d %H:%M} UTC"
        raise _unauthorized(token.prefix, f"The token expired at {expiry}.", "Create a new one on your account page.")
    if token.user.left_at is not None:
        raise _left(token.user)
    if not token.user.is_active:
        reason = f" Reason: {token.user.closed_because}" if token.user.closed_because else ""
        raise _unauthorized(token.prefix, f"The token's account is closed.{reason}", "Ask the operator of this site.")
    # Once a minute is enough for "last used", and spares a write on most requests.
    if token.last_used_at is None or now - token.last_used_at > timedelta(minutes=1):
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
    drop_unproven_rights(token.user)
    return token


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _left(user: User) -> Refusal:
    return NotSignedIn("user", user.username, "This account was deleted.", "Sign up again if you want to come back.")


def _unauthorized(prefix: str, message: str, remedy: str) -> Refusal:
    return NotSignedIn("token", f"{prefix}..." if prefix else "", message, remedy)


def check_password(user: User, password: str) -> None:
    """Refuse a password that is too weak, or too like the account; raises Refusal."""
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise Refusal("password", "", " ".join(error.messages), "Choose a longer or less common password.") from error
