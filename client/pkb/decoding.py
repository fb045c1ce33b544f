"""What must have happened before several threads decode."""

import threading

import msgspec

_READING = threading.Lock()


def read_fields() -> None:
    """Have msgspec read the fields of every imported record type.

    Else it reads them when it first decodes a type, and two threads that do so at once end the process (msgspec 0.22).
    """
    with _READING:
        types = msgspec.Struct.__subclasses__()
        for each in types:
            msgspec.json.Decoder(each)
            types += each.__subclasses__()
