"""What must have happened before several threads decode."""

import threading

import msgspec

_READING = threading.Lock()
_OURS = __name__.partition(".")[0]


def read_fields() -> None:
    """Have msgspec read the fields of every imported record type of this package.

    Else it reads them when it first decodes a type, and two threads that do so at once end the process (msgspec 0.22).
    Types of a harness beside this package stay as they are: msgspec may be unable to read some.
    """
    with _READING:
        types = msgspec.Struct.__subclasses__()
        for each in types:
            if each.__module__.partition(".")[0] == _OURS:
                msgspec.json.Decoder(each)
            types += each.__subclasses__()
