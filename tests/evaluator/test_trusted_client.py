"""The host's client to trusted ranks, over real sockets on whose other ends this test answers."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from evaluator.errors import EvaluatorError
from evaluator.host.ranks.trusted_client import OutOfDeviceMemory, TrustedRankClient
from evaluator.oracle import messages


@pytest.fixture
def ends() -> Iterator[list[tuple[socket.socket, socket.socket]]]:
    """Host's end and rank's end of two ranks."""
    pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(2)]
    yield pairs
    for pair in pairs:
        for end in pair:
            end.close()


@pytest.fixture
def client(ends: list[tuple[socket.socket, socket.socket]]) -> TrustedRankClient:
    return TrustedRankClient(
        "oracle", [host for host, _ in ends], seconds=5.0, busy_poll_s=0.0, log_text=lambda: "what it printed"
    )


def answer(end: socket.socket, body: messages.Body, descriptors: tuple[int, ...] = ()) -> None:
    assert messages.receive(end) is not None
    messages.send(end, body, descriptors)


def ask(
    client: TrustedRankClient, ends: list[tuple[socket.socket, socket.socket]], *bodies: messages.Body
) -> list[object]:
    """Ask with the answers lying ready."""
    client.send([{"command": "memory"}] * 2, [()] * 2)
    for (_, rank), body in zip(ends, bodies, strict=True):
        answer(rank, body)
    return [body for body, _ in client.collect("memory")]


def test_every_rank_answers_at_its_index(
    client: TrustedRankClient, ends: list[tuple[socket.socket, socket.socket]]
) -> None:
    assert ask(client, ends, {"bytes": 1}, {"bytes": 2}) == [{"bytes": 1}, {"bytes": 2}]


def test_after_a_lack_of_memory_the_ranks_can_be_asked_again(
    client: TrustedRankClient, ends: list[tuple[socket.socket, socket.socket]]
) -> None:
    """What the other rank said must not be taken for the answer to the next question, and its files are closed."""
    client.send([{"command": "prepare"}] * 2, [()] * 2)
    answer(ends[0][1], {"error": "no memory left", "is_memory": True})
    file = os.memfd_create("inputs")
    answer(ends[1][1], {"bytes": 7}, (file,))
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(OutOfDeviceMemory, match="oracle rank 0 failed during 'prepare': no memory left"):
        client.collect("prepare")
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    os.close(file)
    assert ask(client, ends, {"bytes": 1}, {"bytes": 2}) == [{"bytes": 1}, {"bytes": 2}]


def test_any_other_failure_is_ours_and_said_with_its_rank(
    client: TrustedRankClient, ends: list[tuple[socket.socket, socket.socket]]
) -> None:
    with pytest.raises(EvaluatorError, match="oracle rank 0 failed during 'memory': it broke"):
        ask(client, ends, {"error": "it broke", "is_memory": False}, {"bytes": 2})


def test_a_rank_that_has_ended_is_reported_with_what_it_printed(
    client: TrustedRankClient, ends: list[tuple[socket.socket, socket.socket]]
) -> None:
    client.send([{"command": "memory"}] * 2, [()] * 2)
    ends[1][1].close()
    with pytest.raises(EvaluatorError, match=r"oracle rank 1 .*during 'memory'"):
        client.collect("memory")
