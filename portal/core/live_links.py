"""Addresses of event streams. The address names what may be followed, signed by the page that may show it.

Opening a stream therefore needs neither a session nor a question to the database.
"""

from dataclasses import dataclass
from enum import StrEnum

from django.core import signing

PREFIX = "/live/"
MAX_AGE_S = 12 * 3600
"""How long an address opens a stream; a page that is open longer goes on by asking now and then."""
_SALT = "portal.core.live_links"


class Kind(StrEnum):
    EVALUATION = "evaluation"
    RUN = "run"


@dataclass(frozen=True)
class Subject:
    kind: Kind
    identifier: str


def address(subject: Subject) -> str:
    """The address at which `subject` can be followed by anybody who has it."""
    return f"{PREFIX}{signing.dumps([subject.kind.value, subject.identifier], salt=_SALT)}"


def subject_of(path: str) -> Subject | None:
    """What the address `path` follows; None where the site has not made it, or made it too long ago."""
    try:
        kind, identifier = signing.loads(path.removeprefix(PREFIX), salt=_SALT, max_age=MAX_AGE_S)
    except (signing.BadSignature, ValueError):
        return None
    return Subject(Kind(kind), identifier)
