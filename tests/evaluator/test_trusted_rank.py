"""Ranks that share a device take turns where it has too little memory for all of them."""

import multiprocessing
from collections.abc import Callable
from multiprocessing.synchronize import Semaphore
from pathlib import Path

import pytest
import torch

from evaluator.oracle.trusted_rank import Reply, in_turns

_FORK = multiprocessing.get_context("fork")


_RANKS = 4


def _answer(room: Semaphore, failures: Semaphore, freed: Semaphore, file: Path) -> None:
    """What each rank does. Its handler needs all the room; who has it first keeps it until the others got none.

    So a rank that tries again without waiting for its turn fails for good.
    """
    is_first_try = True

    def handler(_message: object, _descriptors: list[int]) -> Reply:
        nonlocal is_first_try
        if not room.acquire(block=False):
            is_first_try = False
            failures.release()
            raise torch.OutOfMemoryError("no room")
        for _ in range(_RANKS - 1 if is_first_try else 0):
            assert failures.acquire(timeout=60)
        room.release()
        return {"is_right": True}, []

    assert in_turns(handler, file=file, free=freed.release)({}, []) == ({"is_right": True}, [])


def test_those_who_get_no_memory_free_theirs_and_answer_one_after_the_other(tmp_path: Path) -> None:
    room, failures, freed = _FORK.Semaphore(1), _FORK.Semaphore(0), _FORK.Semaphore(0)
    options = {"target": _answer, "args": (room, failures, freed, tmp_path / "turns")}
    ranks = [_FORK.Process(**options) for _ in range(_RANKS)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    assert [rank.exitcode for rank in ranks] == [0] * _RANKS
    assert all(freed.acquire(block=False) for _ in range(_RANKS - 1))


def test_who_gets_none_alone_says_so(tmp_path: Path) -> None:
    freed: list[str] = []
    handler: Callable[[object, list[int]], Reply] = _never
    with pytest.raises(torch.OutOfMemoryError, match="too much"):
        in_turns(handler, file=tmp_path / "turns", free=lambda: freed.append("once"))({}, [])
    assert freed == ["once"]


def _never(_message: object, _descriptors: list[int]) -> Reply:
    raise torch.OutOfMemoryError("too much")
