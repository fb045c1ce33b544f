"""The base of all messages between site and judge (frozen, typed, JSON both ways), and their ranges.

Whoever holds a node's key writes what he likes, and pages draw, count and multiply what they read. So the ends of
ranges are far beyond what a judge finds, and near enough that no sum, product or logarithm of such numbers leaves a
float.
"""

import threading
from typing import Annotated, Self

import msgspec
from msgspec import Meta

VERSION = "0.4.0"
"""Of site, judge, node and client, which are one source. Site and node say theirs to each other."""
SCHEMA_VERSION = 2
"""Of reports and of what nodes say. Only a change that the rules of `Message` do not allow raises it."""

MOST_RANKS = 64
MOST_POINTS = 9
"""Of an axis; a sweep judges each of them as a size."""
MOST_SIZES = MOST_POINTS
MOST_BLOCKS = 2000
MOST_ERROR_MAPS, MOST_MAPS_OF_A_RANK = 16, 8
"""Of a report, and of a rank in a call, whose message to the host has a limit."""
MOST_SLOTS = 64
"""Of one node: each slot is a row that pages show."""
MOST_BUILDERS = 64
"""Of one node: the dispatcher asks the queue for each."""
MOST_REPORT_BYTES = 8 * 1024**2
"""Limit of a delivery as a message carries it. RabbitMQ accepts 16 MiB, and Celery's coding adds a third."""

Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Whole = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
"""A difference of counts, or a time that may come out below nothing."""
Rank = Annotated[int, Meta(ge=0, lt=MOST_RANKS)]
WorldSize = Annotated[int, Meta(ge=1, le=MOST_RANKS)]
Line = Annotated[int, Meta(ge=0, le=2**31 - 1)]

Positive = Annotated[float, Meta(ge=1e-100, le=1e100)]
"""A ratio, or a time that is drawn on a logarithmic scale."""
Amount = Annotated[float, Meta(ge=0, le=1e100)]
Real = Annotated[float, Meta(ge=-1e100, le=1e100)]

Name = Annotated[str, Meta(max_length=500)]
Sentence = Annotated[str, Meta(max_length=5000)]
Log = Annotated[str, Meta(max_length=300_000)]


_READING = threading.Lock()


def read_fields() -> None:
    """Have msgspec read the fields of every imported record type; for programs that will decode in several threads.

    Else it reads them when it first decodes a type, and two threads that do so at once end the process (msgspec 0.22).
    """
    with _READING:
        types = msgspec.Struct.__subclasses__()
        for each in types:
            msgspec.json.Decoder(each)
            types += each.__subclasses__()


class ContractError(ValueError):
    """A message does not match the contract; the text names the field."""


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A frozen record that can be written as JSON and read back. A field that this release does not know is ignored.

    Site and nodes of neighbouring releases read each other's messages, so a change follows these rules:
    - A new field has a default, and with it the message means what it meant before.
    - A field goes only if it had a default in the release before.
    - A type or a range becomes no narrower, and a field keeps its name and meaning.
    - A new value of an enumeration may come from a node, because sites are upgraded first. A site sends none.
    - Anything else raises `SCHEMA_VERSION`: the site then refuses nodes of another one, with a sentence.
    """

    def to_json(self) -> str:
        """This record as JSON text."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """The record that `text` holds.

        Raises:
            ContractError: the text is not JSON, lacks a field or has one of the wrong type.
        """
        try:
            return msgspec.json.decode(text, type=cls)
        except (msgspec.ValidationError, msgspec.DecodeError, RecursionError) as error:
            raise ContractError(f"{cls.__name__}: {error}") from error
