"""Shares of processors, and busy-polling for a message."""

import os
import socket
import threading

import pytest

from evaluator.arena import busy_poll
from evaluator.host.sandbox import cpu_sets


def test_every_rank_has_processors_that_nobody_else_has():
    found = cpu_sets.shares(range(64), world_size=4)
    parts = [*found.oracle, *found.sandbox]
    every = [number for part in parts for number in part]
    assert len(parts) == 8
    assert len(every) == len(set(every))
    assert set(every) < set(range(64))  # some are the host's
    assert all(len(theirs) >= len(ours) for ours, theirs in zip(found.oracle, found.sandbox, strict=True))
    assert found.busy_poll_s > 0
    assert found.threads(found.oracle, world_size=4) == len(found.oracle[0])


def test_two_threads_of_a_core_belong_to_one_part():
    found = cpu_sets.shares(range(128), world_size=8)
    for part in (*found.oracle, *found.sandbox):
        assert all(number ^ 1 in part for number in part)


def test_threads_of_a_core_are_neighbours_however_the_machine_counts_them(tmp_path):
    for number in range(8):
        topology = tmp_path / f"cpu{number}" / "topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(f"{number % 4},{number % 4 + 4}\n")
    assert cpu_sets.by_core(range(8), described=tmp_path) == [0, 4, 1, 5, 2, 6, 3, 7]
    assert cpu_sets.by_core({3, 1, 2}, described=tmp_path / "nowhere") == [1, 2, 3]


def test_two_nodes_on_one_machine_have_processors_of_their_own():
    machine, everywhere = range(128), range(8)
    first, second = (cpu_sets.of_gpus(machine, own=own, everywhere=everywhere) for own in ((0, 1, 2, 3), (4, 5, 6, 7)))
    assert len(first) == len(second) == 64
    assert not set(first) & set(second)
    assert cpu_sets.shares(first, world_size=4).sandbox


@pytest.mark.parametrize("processors", [2, 16, 39])
def test_few_processors_are_everybodys(processors):
    found = cpu_sets.shares(range(processors), world_size=4)
    assert found == cpu_sets.Shares()
    assert found.threads(found.oracle, world_size=1) == len(os.sched_getaffinity(0))
    assert found.busy_poll_s == 0.0


@pytest.mark.parametrize("busy_poll_s", [0.0, 30.0])
def test_a_message_is_received_sleeping_or_busy_polling(busy_poll_s):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        sender = threading.Thread(target=theirs.send, args=(b"GO",))
        sender.start()
        packet, *_ = busy_poll.receive(ours, 64, 0, busy_poll_s=busy_poll_s)
        sender.join()
    assert packet == b"GO"


def test_a_closed_end_is_noticed_while_busy_polling():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        theirs.close()
        assert busy_poll.receive(ours, 64, 0, busy_poll_s=30.0)[0] == b""


def test_the_host_keeps_to_its_own_and_is_free_again():
    mine = sorted(os.sched_getaffinity(0))
    with cpu_sets.host_on(cpu_sets.Shares(host=(mine[-1],))):
        assert os.sched_getaffinity(0) == {mine[-1]}
    assert sorted(os.sched_getaffinity(0)) == mine


def test_builders_have_neither_a_ranks_processor_nor_the_gatekeepers_core():
    own = cpu_sets.shares(range(32), world_size=2)
    timed = {number for part in (*own.oracle, *own.sandbox) for number in part}
    assert not timed & set(own.builders)
    assert not {own.gatekeeper[0], own.gatekeeper[0] - 1} & set(own.builders)
    assert len(own.builders) == 8
    assert cpu_sets.shares(range(16), world_size=2).builders == ()
