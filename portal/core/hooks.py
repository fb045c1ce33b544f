"""Events that an app sends to the apps above it, without importing them."""

from collections.abc import Callable
from typing import Generic, TypeVar

from django.db import transaction
from django.dispatch import Signal

Event = TypeVar("Event")


class Hook(Generic[Event]):
    """A typed Django signal: an app declares it, apps above receive it in their modules `receivers`.

    Receivers run at once, in the sender's transaction and in no fixed order. An exception of a receiver reaches the
    sender and rolls the whole transaction back.
    """

    def __init__(self) -> None:
        self._signal = Signal()

    def receiver(self, function: Callable[[Event], None]) -> Callable[[Event], None]:
        """A decorator: `function` is called with every event."""
        # Not weak: only this hook refers to the adapter. A receiver that is imported again has the same identifier.
        uid = f"{function.__module__}.{function.__qualname__}"
        self._signal.connect(lambda event, **_: function(event), weak=False, dispatch_uid=uid)
        return function

    def send(self, event: Event) -> None:
        """Call every receiver with `event`.

        Raises:
            TransactionManagementError: no transaction is open. A failing receiver would then leave half a change.
        """
        if not transaction.get_connection().in_atomic_block:
            raise transaction.TransactionManagementError(f"{event!r} was sent outside a transaction")
        self._signal.send(sender=type(self), event=event)
