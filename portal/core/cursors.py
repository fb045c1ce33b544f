"""Where a page of a long board begins: the ordering values of the last row before it, as one opaque token.

Pages are found by these values and not by counting rows. So the thousandth page costs what the first does, and an entry
that arrives meanwhile neither repeats nor hides another.
"""

import base64
import binascii
import json
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from portal.core.errors import Refusal


def encode(values: Sequence[Any]) -> str:
    """`values` (numbers and times) as a token for an address."""
    plain = [value.isoformat() if isinstance(value, datetime) else value for value in values]
    return base64.urlsafe_b64encode(json.dumps(plain).encode()).decode().rstrip("=")


def decode(word: str, *, kinds: Sequence[type]) -> tuple[Any, ...]:
    """The values in the token `word`, which must be of these kinds.

    Raises:
        Refusal: it is not a token that `encode` made for such values (404).
    """
    try:
        values = json.loads(base64.urlsafe_b64decode(word + "=" * (-len(word) % 4)))
        return tuple(_typed(value, kind) for value, kind in zip(values, kinds, strict=True))
    except (ValueError, TypeError, binascii.Error, OverflowError, RecursionError):
        raise Refusal(
            field="after",
            value=word,
            message="This board has no page that begins there.",
            remedy="Start from its first page.",
            status=404,
        ) from None


def _typed(value: Any, kind: type) -> Any:
    if kind is datetime:
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is None:
            raise ValueError("a time without a time zone")
        return moment.astimezone(UTC)  # OverflowError for what is no moment there: a database refuses it too
    if isinstance(value, bool) or not isinstance(value, int if kind is int else (int, float)):
        raise TypeError("not a number")
    if kind is int and abs(value) >= 2**63:
        raise ValueError("larger than any number in the database")
    number = kind(value)
    if not math.isfinite(number):
        raise ValueError("no number that rows have")
    return number
