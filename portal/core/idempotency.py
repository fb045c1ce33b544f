"""What a second request under the same idempotency key must share with the first, and how a different one is refused.

Giving back the earlier thing for another request would make its sender believe in something that was never made.
"""

import json
from collections.abc import Mapping

from portal.core.errors import Conflict

_SHORT = 40
"""Characters of a value that is still shown: a profile or a model's name is, the digest of a source is not."""


def differences(request: Mapping[str, object], stored: Mapping[str, object]) -> list[str]:
    """In words, each field of `request` that `stored` has another value of, with both values where they are short."""
    found = []
    for name, value in request.items():
        now, before = _shown(value), _shown(stored[name])
        words = "another" if max(len(now), len(before)) > _SHORT else f"{now} and was {before}"
        found += [f"{name} is {words}"] if value != stored[name] else []
    return found


def check_replay(
    *, field: str, key: str, what: str, pk: object, request: Mapping[str, object], stored: Mapping[str, object]
) -> None:
    """Do nothing where a request says what the first under its key said.

    Args:
        field: the input that brought the key.
        key: the key.
        what: what it made, one word such as "run".
        pk: the id of that.
        request: what this request says, by the names of its fields.
        stored: the same of the first request.

    Raises:
        Refusal: something differs (409); its message names every such field.
    """
    found = differences(request, stored)
    if found:
        remedy = f"Use another key for another {what}, or repeat the first request unchanged."
        raise Conflict(field, key, f"This key was used for a different {what}, {pk}: {'; '.join(found)}.", remedy)


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return json.dumps(value)
    return "not given" if value is None or value == "" else str(value)
