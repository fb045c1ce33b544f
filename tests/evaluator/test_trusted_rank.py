"""Ranks that share a device take turns where it has too little memory for all of them."""

import multiprocessing
from collections.abc import Callable
from multiprocessing.synchronize import Event, Semaphore
from pathlib import Path

import pytest
import torch

from evaluator.oracle.trusted_rank import Reply, in_turns

_FORK = multiprocessing.get_context("fork")


def _answer(room: Semaphore, has_failed: Event, freed: Semaphore, file: Path) -> None:
    """What each rank does: its handler needs all the room, and keeps it until another one got none."""

    def handler(_message: object, _descriptors: list[int]) -> Reply:
        if not room.acquire(block=False):
            has_failed.set()
            raise torch.OutOfMemoryError("no room")
        has_failed.wait(60)
        room.release()
        return {"is_right": True}, []

    assert in_turns(handler, file=file, free=freed.release)({}, []) == ({"is_right": True}, [])


def test_those_who_get_no_memory_free_theirs_and_answer_one_after_the_other(tmp_path: Path) -> None:
    room, has_failed, freed = _FORK.Semaphore(1), _FORK.Event(), _FORK.Semaphore(0)
    options = {"target": _answer, "args": (room, has_failed, freed, tmp_path / "turns")}
    ranks = [_FORK.Process(**options) for _ in range(4)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    assert [rank.exitcode for rank in ranks] == [0] * 4
    assert freed.acquire(block=False)


def test_who_gets_none_alone_says_so(tmp_path: Path) -> None:
    freed: list[str] = []
    handler: Callable[[object, list[int]], Reply] = _never
    with pytest.raises(torch.OutOfMemoryError, match="too much"):
        in_turns(handler, file=tmp_path / "turns", free=lambda: freed.append("once"))({}, [])
    assert freed == ["once"]


def _never(_message: object, _descriptors: list[int]) -> Reply:
    raise torch.OutOfMemoryError("too much")
