"""Where the gatekeeper tells oracle ranks that a call has ended: a page that no sandbox ever sees.

Ranks' devices write the ends of calls on the page of their own group, which the gatekeeper reads. Whoever else read
there would make it see them later: a line of memory that several processors read is slower to reach the next one.
Standard library only: the gatekeeper is a program of its own.
"""

import mmap
import os
import struct

BYTES = 4096
_STRIDE = 64
"""A line of memory for every rank."""
MOST_RANKS = BYTES // _STRIDE
_NUMBER = struct.Struct("<Q")
_NEVER = 1 << 63


def new_page() -> int:
    """A page for the ends of calls; returns its descriptor."""
    descriptor = os.memfd_create("ends", os.MFD_CLOEXEC)
    os.ftruncate(descriptor, BYTES)
    return descriptor


class Ends:
    """The ends that are told on a page, by the tickets of orders to the gatekeeper, which never come again."""

    def __init__(self, page: mmap.mmap) -> None:
        self._page = page

    def post(self, rank: int, ticket: int) -> None:
        """The rank's device has told the end of the call."""
        _NUMBER.pack_into(self._page, _STRIDE * rank, ticket)

    def give_up(self, rank: int, ticket: int) -> None:
        """No end of this call is waited for any more."""
        _NUMBER.pack_into(self._page, _STRIDE * rank, ticket | _NEVER)

    def has_come(self, rank: int, ticket: int) -> bool | None:
        """Whether the end has been told; None where it is no longer waited for."""
        last = _NUMBER.unpack_from(self._page, _STRIDE * rank)[0]
        if last == ticket | _NEVER:
            return None
        return bool(last == ticket)
