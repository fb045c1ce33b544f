"""What a password has to be."""

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError

from portal.accounts.models import User
from portal.core.errors import Refusal


def check_password(user: User, password: str) -> None:
    """Refuse a password that is too weak, or too like the account; raises Refusal."""
    try:
        validate_password(password, user)
    except ValidationError as error:
        message = " ".join(error.messages)
        raise Refusal("password", "", message, "Choose a longer or less common password.") from error
