"""Calls into the GPU driver's library, each in a thread that is given up where the driver does not answer.

A driver that hangs does so in the kernel, where nothing can end the call. The thread that made it stays behind. Until
it comes back no other call is made: each would hang too, and every one of them would cost its caller `LIMIT_S`.
"""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

logger = logging.getLogger(__name__)

LIMIT_S = 10.0
"""How long a call may take. After an evaluation's deadline there are 30 s for everything."""

_Answer = TypeVar("_Answer")


class DriverSilent(Exception):
    """The driver does not answer; the text says what was asked."""


_lock = threading.Lock()
_given_up: list[tuple[str, Future[Any]]] = []
"""The calls of this process that the driver has not answered in time, and what they asked."""


def _hanging() -> str:
    """What was asked in a call that still hangs; empty where none does."""
    with _lock:
        _given_up[:] = [(what, done) for what, done in _given_up if not done.done()]
        return _given_up[0][0] if _given_up else ""


def ask(what: str, call: Callable[[], _Answer]) -> _Answer:
    """What `call` returns or raises.

    Args:
        what: what it asks, for the operator's log.
        call: makes calls into the driver's library. It is abandoned where the driver hangs, so it must not leave a
            change half made that others see.

    Raises:
        DriverSilent: it takes longer than `LIMIT_S`, or an earlier call still hangs.
    """
    if hanging := _hanging():
        raise DriverSilent(f"the GPU driver still does not answer ({hanging})")
    done: Future[_Answer] = Future()
    threading.Thread(target=_answer, args=(call, done), name="gpu-driver", daemon=True).start()
    try:
        return done.result(timeout=LIMIT_S)
    except TimeoutError as error:
        if done.done():
            raise
        with _lock:
            _given_up.append((what, done))
        logger.error(  # noqa: TRY400 - the text says all
            "the GPU driver has not answered for %g s (%s): nothing is read from it until it does", LIMIT_S, what
        )
        raise DriverSilent(f"the GPU driver did not answer for {LIMIT_S:g} s ({what})") from error


def silence() -> str:
    """That the driver does not answer, in words; empty where no call hangs."""
    hanging = _hanging()
    return f"the GPU driver does not answer ({hanging})" if hanging else ""


def _answer(call: Callable[[], _Answer], done: Future[_Answer]) -> None:
    try:
        done.set_result(call())
    except BaseException as error:  # noqa: BLE001 - whoever waits raises it
        done.set_exception(error)
