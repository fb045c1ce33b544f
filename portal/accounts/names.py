"""Valid public names of accounts: they appear in tables, addresses and folders, and must not look like others."""

import re

from portal.accounts.models import User, confusable_key
from portal.core.errors import Conflict, Refusal

OWN_AUTHOR = "pkb"
MIN_NAME = 2
MAX_NAME = 40
_RESERVED = frozenset(
    f"""{OWN_AUTHOR} about account accounts admin administrator anonymous api docs everybody help login logout me
    moderator mod nobody none null official operator owner parallelkernelbench privacy reference root search security
    settings site staff static support system team terms undefined user webmaster well-known you""".split()
)
"""Reserved names: readers would think that they belong to the site or to nobody."""
_RESERVED_LOOKS = frozenset(confusable_key(name) for name in _RESERVED)
_SIGNS = re.compile(r"[@.+_-]{2}")


def check_name(username: str) -> None:
    """Refuse a name that makes no address, is the site's own, is taken, or looks like one that is.

    Raises:
        Refusal: what is wrong with it (422), or that another account has it or one that looks the same (409).
    """
    if fault := _fault(username):
        raise Refusal("username", username, *fault)
    if User.objects.filter(username__iexact=username).exists():
        raise name_taken(username)
    if User.objects.filter(confusable_key=confusable_key(username)).exists():
        message = "This name looks like that of another account."
        raise Conflict("username", username, message, "Choose a name that cannot be confused with another.")


def name_taken(username: str) -> Refusal:
    """Another account has this name (409)."""
    return Conflict("username", username, "This name is taken.", "Choose another name, or sign in if it is yours.")


def _fault(username: str) -> tuple[str, str] | None:
    """What is wrong with the name by itself, and what to do instead."""
    if not MIN_NAME <= len(username) <= MAX_NAME:
        return f"The name has {len(username)} characters.", f"Use {MIN_NAME} to {MAX_NAME} characters."
    if not re.fullmatch(r"[A-Za-z0-9@.+_-]+", username) or username.endswith("\n"):
        return "The name has a character that is not allowed.", "Use letters a to z, digits and @ . + - _."
    if not (username[0].isalnum() or username[0] == "_"):
        return "The name begins with a punctuation mark.", "Begin it with a letter, a digit or an underscore."
    if not (username[-1].isalnum() or username[-1] == "_") or _SIGNS.search(username):
        return (
            "The name ends with a punctuation mark, or has two in a row.",
            "Put a letter or a digit between and after them.",
        )
    if username.lower() in _RESERVED or confusable_key(username) in _RESERVED_LOOKS:
        return "This name is reserved for the site.", "Choose another one."
    return None
