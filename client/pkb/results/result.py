"""What all responses have in common."""

import msgspec


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A record of the site."""
