"""The page on which the gatekeeper posts ends of calls for oracle ranks; no sandbox sees it.

Ranks' devices write the ends of calls on the page of their own group, which the gatekeeper reads. Another reader of
that page would delay the gatekeeper: a cache line that several processors read reaches each one later. Standard library
only, because the gatekeeper is a program of its own.
"""

import mmap
import os
import struct

BYTES = 4096
_STRIDE = 64
"""One cache line for every rank."""
MOST_RANKS = BYTES // _STRIDE
_NUMBER = struct.Struct("<Q")
_NEVER = 1 << 63


def new_page() -> int:
    """A page for the ends of calls; returns its descriptor."""
    descriptor = os.memfd_create("ends", os.MFD_CLOEXEC)
    os.ftruncate(descriptor, BYTES)
    return descriptor


class Ends:
    """The ends that are posted on a page, by the tickets of commands to the gatekeeper, which never repeat."""

    def __init__(self, page: mmap.mmap) -> None:
        self._page = page

    def post(self, rank: int, ticket: int) -> None:
        """Post the end of the call on this rank."""
        _NUMBER.pack_into(self._page, _STRIDE * rank, ticket)

    def give_up(self, rank: int, ticket: int) -> None:
        """Post that nobody waits for the end of this call."""
        _NUMBER.pack_into(self._page, _STRIDE * rank, ticket | _NEVER)

    def has_come(self, rank: int, ticket: int) -> bool | None:
        """Whether the end was posted; None where nobody waits for it."""
        last = _NUMBER.unpack_from(self._page, _STRIDE * rank)[0]
        if last == ticket | _NEVER:
            return None
        return bool(last == ticket)
