"""Counts the collectives of torch.distributed that move data during a call. Self-reported, as all data of ranks."""

from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_NAMESPACES = frozenset({"c10d", "_c10d_functional"})
_WITHOUT_DATA = ("barrier", "monitored_barrier", "wait_tensor")
_HANDLES = 4096
"""Collectives over this many bytes or fewer may exchange handles and sizes, which is allowed at any time."""


class _Watch(TorchDispatchMode):
    """Sees every operator of this thread on its way to its kernel."""

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # torch has no types there
        self.moved = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "namespace", "") in _NAMESPACES and not func.__name__.startswith(_WITHOUT_DATA):
            self.moved += sum(tensor.nbytes for tensor in _tensors(args)) > _HANDLES
        return func(*args, **(kwargs or {}))


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


class CollectiveCount:
    """Counts collectives that move more than handles inside a `with` block, if wanted; else it does nothing."""

    def __init__(self, *, is_wanted: bool) -> None:
        self._watch = _Watch() if is_wanted else None

    @property
    def moved(self) -> int:
        """How many collectives moved tensors."""
        return 0 if self._watch is None else self._watch.moved

    def __enter__(self) -> Self:
        if self._watch is not None:
            self._watch.__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._watch is not None:
            self._watch.__exit__(kind, error, trace)  # type: ignore[no-untyped-call]
