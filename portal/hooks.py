"""How an app tells the apps above it that something happened, without importing them."""

from collections.abc import Callable
from typing import Generic, TypeVar

from django.db import transaction
from django.dispatch import Signal

Event = TypeVar("Event")


class Hook(Generic[Event]):
    """A typed Django signal: an app declares it, apps above connect in `AppConfig.ready`.

    Receivers run at once, in the transaction of whoever tells, and in no promised order. What one of them raises goes
    to the teller and takes the whole transaction back.
    """

    def __init__(self) -> None:
        self._signal = Signal()

    def connect(self, receiver: Callable[[Event], None], *, uid: str) -> None:
        """Have `receiver` called with every event; connecting again under the same `uid` changes nothing."""
        # Not weak: nobody but this hook refers to the adapter.
        self._signal.connect(lambda event, **_: receiver(event), weak=False, dispatch_uid=uid)

    def disconnect(self, *, uid: str) -> None:
        """Call the receiver that was connected under `uid` no more."""
        self._signal.disconnect(dispatch_uid=uid)

    def tell(self, event: Event) -> None:
        """Call every receiver with `event`.

        Raises:
            TransactionManagementError: no transaction is open, so that a failing receiver would leave half behind.
        """
        if not transaction.get_connection().in_atomic_block:
            raise transaction.TransactionManagementError(f"{event!r} is told outside a transaction")
        self._signal.send(sender=type(self), event=event)
