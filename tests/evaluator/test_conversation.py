"""How the host handles answers of workers, and incidents instead: real sockets, with the test as the ranks."""

import os
import socket
import time

import pytest

from evaluator.arena import protocol
from evaluator.arena.protocol import Command, CommandKind, Failure, Report, ReportKind
from evaluator.host.hangs.incidents import EvaluationCancelled, IncidentKind
from evaluator.host.ranks.channel import Channel
from evaluator.host.ranks.conversation import Conversation
from evaluator.host.ranks.worker import Worker

LONG_S = 60.0


class Ranks:
    """The other ends: what a launcher and its ranks would hold."""

    def __init__(self, count):
        self.has_ended = False
        self.exits_host, self.exits = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(count)]
        self.ends = [child for _, child in pairs]
        self.workers = []
        for number, (host, _) in enumerate(pairs):
            status_page = os.memfd_create("status_page")
            os.ftruncate(status_page, protocol.STATUS_BYTES)
            self.workers.append(Worker(number=number, channel=Channel(host), status_page=status_page))

    def say(self, rank, kind, **fields):
        self.ends[rank].send(Report(kind=kind, **fields).pack())

    def exit(self, rank, status):
        self.exits.send(protocol.EXIT.pack(protocol.EXIT_MAGIC, rank, status))

    def close(self):
        for end in (*self.ends, self.exits, self.exits_host):
            end.close()
        for worker in self.workers:
            os.close(worker.status_page)


@pytest.fixture
def ranks():
    ranks = Ranks(2)
    yield ranks
    ranks.close()


@pytest.fixture
def conversation(ranks):
    conversation = Conversation(
        ranks.workers,
        ranks.exits_host,
        have_ended=lambda: ranks.has_ended,
        launcher_text=lambda: "bwrap: no room",
        grace_s=0.05,
    )
    yield conversation
    conversation.close()


def collect(conversation, seconds=LONG_S, **keywords):
    return conversation.collect(seconds=seconds, **{"cancelled": lambda: False} | keywords)


def ready(ranks):
    for rank in range(len(ranks.workers)):
        ranks.say(rank, ReportKind.READY)


def kinds(conversation):
    return [incident.kind for incident in conversation.incidents]


@pytest.mark.parametrize("busy_poll_s", [0.0, LONG_S])
def test_one_answer_of_each_is_complete_and_shows_who_answered_when(ranks, conversation, busy_poll_s):
    ready(ranks)
    before = time.monotonic_ns()

    answers = collect(conversation, busy_poll_s=busy_poll_s)

    assert answers.is_complete
    assert sorted(answers.reports) == [0, 1]
    assert answers.waited_s == LONG_S
    assert all(worker.answered_at_ns >= before for worker in ranks.workers)
    assert all(worker.pid == os.getpid() for worker in ranks.workers), "the kernel says who sent a record"


def test_a_command_reaches_every_rank_and_its_answer_is_matched_to_it(ranks, conversation):
    ready(ranks)
    collect(conversation)
    conversation.ask([(Command(kind=CommandKind.GO, call=3, delay_us=rank), ()) for rank in range(2)])

    for rank, end in enumerate(ranks.ends):
        assert Command.unpack(end.recv(4096)) == Command(kind=CommandKind.GO, call=3, delay_us=rank)
        ranks.say(rank, ReportKind.DONE, call=3, claimed_ns=10 + rank)

    answers = collect(conversation)
    assert answers.is_complete
    assert [answers.reports[rank].claimed_ns for rank in range(2)] == [10, 11]


def test_a_rank_that_stays_silent_leaves_the_answers_incomplete(ranks, conversation):
    ranks.say(1, ReportKind.READY)

    answers = collect(conversation, seconds=0.05)

    assert not answers.is_complete
    assert sorted(answers.reports) == [1]
    assert conversation.incidents == ()


def test_a_record_that_nobody_asked_for_is_a_violation(ranks, conversation):
    ranks.say(0, ReportKind.DONE, call=1)
    ranks.say(1, ReportKind.READY)

    assert not collect(conversation).is_complete

    (incident,) = conversation.incidents
    assert (incident.kind, incident.rank) == (IncidentKind.VIOLATION, 0)


def test_a_failure_carries_its_reason_and_the_text_of_the_status_page(ranks, conversation):
    os.pwrite(ranks.workers[0].status_page, b"Traceback: of rank 0\0", protocol.STATUS_TEXT_START)
    ranks.say(0, ReportKind.FAILED, detail=int(Failure.START))
    ranks.say(1, ReportKind.READY)

    assert not collect(conversation).is_complete

    (incident,) = conversation.incidents
    assert (incident.kind, incident.failure, incident.text) == (
        IncidentKind.FAILED,
        Failure.START,
        "Traceback: of rank 0",
    )
    assert ranks.workers[0].failure is Failure.START


def test_a_reason_that_does_not_exist_is_none_of_our_shims(ranks, conversation):
    ranks.say(0, ReportKind.FAILED, detail=99)
    ranks.say(1, ReportKind.READY)
    collect(conversation)
    assert conversation.incidents[0].kind is IncidentKind.VIOLATION


def test_a_rank_that_ends_closes_its_channel_and_has_a_status(ranks, conversation):
    ranks.say(1, ReportKind.READY)
    ranks.ends[0].close()
    ranks.exit(0, 9)

    assert not collect(conversation).is_complete

    assert sorted(kinds(conversation), key=str) == [IncidentKind.CLOSED, IncidentKind.EXITED]
    assert ranks.workers[0].was_killed


def test_others_are_waited_for_only_a_moment_after_the_first_incident(ranks, conversation):
    """The long limit does not hold any more: without the grace this would run into the test's own limit."""
    ranks.ends[0].close()

    assert not collect(conversation, seconds=100 * LONG_S).is_complete
    assert kinds(conversation) == [IncidentKind.CLOSED]


def test_a_sandbox_that_ends_before_its_ranks_is_noted_once_with_what_it_printed(ranks, conversation):
    ranks.has_ended = True

    assert not collect(conversation).is_complete
    assert not collect(conversation).is_complete

    (incident,) = conversation.incidents
    assert (incident.kind, incident.text) == (IncidentKind.SANDBOX_ENDED, "bwrap: no room")


def test_a_sandbox_that_ends_after_its_ranks_is_no_incident_of_its_own(ranks, conversation):
    for rank in range(2):
        ranks.exit(rank, 0)
    ranks.has_ended = True

    collect(conversation, seconds=0.05)

    assert set(kinds(conversation)) == {IncidentKind.EXITED}


def test_a_launcher_that_ended_before_it_read_that_its_ranks_may_start_is_no_error_of_its_own(ranks, conversation):
    ranks.exits_host.send(b"f")
    ranks.exits.close()

    conversation.hear_exits()

    assert conversation.incidents == ()


def test_the_kernel_says_who_ended_before_it_read_its_command(ranks, conversation):
    ready(ranks)
    collect(conversation)
    ranks.ends[0].close()  # before the command
    conversation.ask([(Command(kind=CommandKind.IMPORT), ())] * 2)
    ranks.ends[1].close()  # with the command in its queue
    collect(conversation)
    assert [worker.channel.left_unread for worker in ranks.workers] == [True, True]


def test_a_rank_that_has_read_its_command_did_not_leave_it_unread(ranks, conversation):
    ready(ranks)
    collect(conversation)
    conversation.ask([(Command(kind=CommandKind.IMPORT), ())] * 2)
    for end in ranks.ends:
        end.recv(4096)
        end.close()
    collect(conversation)
    assert [worker.channel.left_unread for worker in ranks.workers] == [False, False]


@pytest.mark.parametrize("packet", [b"x", b"x" * 40, protocol.EXIT.pack(protocol.EXIT_MAGIC, 7, 0)])
def test_exits_of_another_form_or_of_no_rank_are_passed_over(ranks, conversation, packet):
    ranks.exits.send(packet)
    conversation.hear_exits()
    assert conversation.incidents == ()


def test_ranks_that_stand_still_are_given_up_at_once(ranks, conversation):
    ranks.say(1, ReportKind.READY)
    seen = []

    def stands_still(_now, answered):
        seen.append(answered)
        return answered == {1}

    answers = collect(conversation, seconds=100 * LONG_S, stands_still=stands_still)

    assert not answers.is_complete
    assert answers.waited_s < LONG_S
    assert kinds(conversation) == [IncidentKind.STALLED]
    assert seen[-1] == {1}


def test_who_cancels_is_heard(conversation):
    with pytest.raises(EvaluationCancelled):
        collect(conversation, cancelled=lambda: True)
