"""How the host handles answers of workers, and incidents instead: real sockets, with the test as the ranks."""

import os
import socket
import time
from types import SimpleNamespace

import pytest

from evaluator.arena import protocol
from evaluator.arena.protocol import Command, CommandKind, Failure, Report, ReportKind
from evaluator.errors import Cancelled
from evaluator.hardware import profiles
from evaluator.host.hangs.incidents import IncidentKind, WorkerGroupFailure
from evaluator.host.ranks.answers import Answers
from evaluator.host.ranks.channel import Channel
from evaluator.host.ranks.observer import Observer
from evaluator.host.ranks.worker import Worker
from evaluator.host.settings import JudgeSettings

LONG_S = 60.0


class Ranks:
    """The other ends: what a launcher and its ranks would hold."""

    def __init__(self, count):
        exits_host, self.exits = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # On GPUs, where nobody looks whether ranks stand still; deadlocks of real ranks are in other tests.
        profile, settings = profiles.get("h100x8"), JudgeSettings(profile="h100x8", grace_s=0.05)
        self.sandbox = SimpleNamespace(
            resources=SimpleNamespace(profile=profile, settings=settings, gpus=()),
            exits=exits_host,
            processes=SimpleNamespace(have_ended=False, memory_kills=0),
            logs=SimpleNamespace(keepers=()),
            launcher_text="bwrap: no room",
        )
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
        for end in (*self.ends, self.exits, self.sandbox.exits):
            end.close()
        for worker in self.workers:
            os.close(worker.status_page)


@pytest.fixture
def ranks():
    ranks = Ranks(2)
    yield ranks
    ranks.close()


@pytest.fixture
def answers(ranks):
    # An observer of nobody: it would signal the process that speaks for the ranks, which is this one.
    answers = Answers(ranks.workers, ranks.sandbox, Observer([], ranks.sandbox))
    yield answers
    answers.close()


def collect(answers, seconds=LONG_S, **keywords):
    return answers.collect("call 1", seconds=seconds, **{"cancelled": lambda: False} | keywords)


def failure(answers, **keywords):
    """What comes instead of complete answers."""
    with pytest.raises(WorkerGroupFailure) as raised:
        collect(answers, **keywords)
    return raised.value


def ready(ranks):
    for rank in range(len(ranks.workers)):
        ranks.say(rank, ReportKind.READY)


def kinds(answers):
    return [incident.kind for incident in answers.incidents]


@pytest.mark.parametrize("busy_poll_s", [0.0, LONG_S])
def test_one_answer_of_each_is_complete_and_shows_who_answered_when(ranks, answers, busy_poll_s):
    ready(ranks)
    before = time.monotonic_ns()

    reports = collect(answers, busy_poll_s=busy_poll_s)

    assert [report.kind for report in reports] == [ReportKind.READY] * 2
    assert all(worker.answered_at_ns >= before for worker in ranks.workers)
    assert all(worker.pid == os.getpid() for worker in ranks.workers), "the kernel says who sent a record"


def test_a_command_reaches_every_rank_and_its_answer_is_matched_to_it(ranks, answers):
    ready(ranks)
    collect(answers)
    answers.ask([Command(kind=CommandKind.GO, call=3, delay_us=rank) for rank in range(2)], [(), ()])

    for rank, end in enumerate(ranks.ends):
        assert Command.unpack(end.recv(4096)) == Command(kind=CommandKind.GO, call=3, delay_us=rank)
        ranks.say(rank, ReportKind.DONE, call=3, claimed_ns=10 + rank)

    assert [report.claimed_ns for report in collect(answers)] == [10, 11]


def test_a_rank_that_stays_silent_is_overdue(ranks, answers):
    ranks.say(1, ReportKind.READY)

    raised = failure(answers, seconds=0.05)

    assert [incident.kind for incident in raised.incidents] == [IncidentKind.OVERDUE]
    assert (raised.doing, raised.limit_s) == ("call 1", 0.05)


def test_a_record_that_nobody_asked_for_is_a_violation(ranks, answers):
    ranks.say(0, ReportKind.DONE, call=1)
    ranks.say(1, ReportKind.READY)

    failure(answers)

    (incident,) = answers.incidents
    assert (incident.kind, incident.rank) == (IncidentKind.VIOLATION, 0)


def test_a_failure_carries_its_reason_and_the_text_of_the_status_page(ranks, answers):
    os.pwrite(ranks.workers[0].status_page, b"Traceback: of rank 0\0", protocol.STATUS_TEXT_START)
    ranks.say(0, ReportKind.FAILED, detail=int(Failure.START))
    ranks.say(1, ReportKind.READY)

    failure(answers)

    (incident,) = answers.incidents
    assert (incident.kind, incident.failure, incident.text) == (
        IncidentKind.FAILED,
        Failure.START,
        "Traceback: of rank 0",
    )
    assert ranks.workers[0].failure is Failure.START


def test_a_reason_that_does_not_exist_is_none_of_our_shims(ranks, answers):
    ranks.say(0, ReportKind.FAILED, detail=99)
    ranks.say(1, ReportKind.READY)
    failure(answers)
    assert answers.incidents[0].kind is IncidentKind.VIOLATION


def test_a_rank_that_ends_closes_its_channel_and_has_a_status(ranks, answers):
    ranks.say(1, ReportKind.READY)
    ranks.ends[0].close()
    ranks.exit(0, 9)

    failure(answers)

    assert sorted(kinds(answers), key=str) == [IncidentKind.CLOSED, IncidentKind.EXITED]
    assert ranks.workers[0].may_have_been_killed


def test_others_are_waited_for_only_a_moment_after_the_first_incident(ranks, answers):
    """The long limit does not hold any more: without the grace this would run into the test's own limit."""
    ranks.ends[0].close()

    failure(answers, seconds=100 * LONG_S)
    assert kinds(answers) == [IncidentKind.CLOSED]


def test_a_sandbox_that_ends_before_its_ranks_is_noted_once_with_what_it_printed(ranks, answers):
    ranks.sandbox.processes.have_ended = True

    failure(answers)
    failure(answers)

    (incident,) = answers.incidents
    assert (incident.kind, incident.text) == (IncidentKind.SANDBOX_ENDED, "bwrap: no room")


def test_a_sandbox_that_ends_after_its_ranks_is_no_incident_of_its_own(ranks, answers):
    for rank in range(2):
        ranks.exit(rank, 0)
    ranks.sandbox.processes.have_ended = True

    failure(answers, seconds=0.05)

    assert set(kinds(answers)) == {IncidentKind.EXITED}


def test_a_launcher_that_ended_before_it_read_that_its_ranks_may_start_is_no_error_of_its_own(ranks, answers):
    ranks.sandbox.exits.send(b"f")
    ranks.exits.close()

    answers.hear_exits()

    assert answers.incidents == []


def test_the_kernel_says_who_ended_before_it_read_its_command(ranks, answers):
    ready(ranks)
    collect(answers)
    ranks.ends[0].close()  # before the command
    answers.ask([Command(kind=CommandKind.IMPORT)] * 2, [(), ()])
    ranks.ends[1].close()  # with the command in its queue
    failure(answers)
    assert [worker.channel.left_unread for worker in ranks.workers] == [True, True]


def test_a_rank_that_has_read_its_command_did_not_leave_it_unread(ranks, answers):
    ready(ranks)
    collect(answers)
    answers.ask([Command(kind=CommandKind.IMPORT)] * 2, [(), ()])
    for end in ranks.ends:
        end.recv(4096)
        end.close()
    failure(answers)
    assert [worker.channel.left_unread for worker in ranks.workers] == [False, False]


@pytest.mark.parametrize("packet", [b"x", b"x" * 40, protocol.EXIT.pack(protocol.EXIT_MAGIC, 7, 0)])
def test_exits_of_another_form_or_of_no_rank_are_passed_over(ranks, answers, packet):
    ranks.exits.send(packet)
    answers.hear_exits()
    assert answers.incidents == []


def test_who_cancels_is_heard(answers):
    with pytest.raises(Cancelled):
        collect(answers, cancelled=lambda: True)
