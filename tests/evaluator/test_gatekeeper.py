"""The process that opens the gates of a call and sees its end, with real pages and ranks that write the words.

The ranks here are threads that do on the page what a rank's process and its device do; no time is asserted but that
one thing comes before another.
"""

import json
import mmap
import os
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from evaluator.arena import protocol
from evaluator.errors import EvaluatorError
from evaluator.host.clock.call_clock import CallTime, ClockPage, GateClock, Opening, UnseenEnd
from evaluator.host.clock.gatekeeper import ClockWords, GateCommand, timed
from evaluator.host.process.spawner import Spawner
from evaluator.oracle import ends as ends_page
from evaluator.oracle.ends import Ends

RANKS = 2
KEY = bytes(range(1, 33))
EVER_NS = 60 * 10**9
"""Longer than any test takes."""
SOON_NS = 20 * 10**6


class Page:
    """A clock's page as ranks and their devices see it."""

    def __init__(self, descriptor: int) -> None:
        self.page = mmap.mmap(descriptor, protocol.CLOCK_PAGE_BYTES)

    def _write(self, words: int, rank: int, number: int) -> None:
        struct.pack_into("<Q", self.page, words + 8 * rank, number)

    def arrive(self, rank: int, number: int) -> None:
        self._write(protocol.ARRIVED_WORDS, rank, number)

    def queue(self, rank: int, number: int) -> None:
        self._write(protocol.QUEUED_WORDS, rank, number)

    def finish(self, rank: int, number: int, *, mark: int = 0) -> None:
        struct.pack_into("<2Q", self.page, protocol.MARK_WORDS + 16 * rank, mark, 0)
        self._write(protocol.DONE_WORDS, rank, number)

    def is_open(self, rank: int, number: int) -> bool:
        return bool(struct.unpack_from("<Q", self.page, protocol.OPEN_WORDS + 8 * rank)[0] == number)

    def wait_for_opening(self, rank: int, number: int) -> int:
        """When the gate was seen open, on the monotonic clock."""
        while not self.is_open(rank, number):
            os.sched_yield()
        return time.monotonic_ns()

    def key(self) -> bytes:
        return self.page[protocol.KEY_START : protocol.KEY_START + len(KEY)]


@pytest.fixture
def clock_page() -> Iterator[ClockPage]:
    page = ClockPage()
    yield page
    page.close()


@pytest.fixture
def page(clock_page: ClockPage) -> Page:
    return Page(clock_page.descriptor)


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """The judge's end and the gatekeeper's."""
    judge, keeper = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with judge, keeper:
        yield judge, keeper


def a_command(**changed: object) -> GateCommand:
    known = {
        "number": 7,
        "ticket": 70,
        "key": KEY,
        "delays_ns": (0,) * RANKS,
        "head_ns": EVER_NS,
        "waits_for_queue": True,
        "limit_ns": EVER_NS,
    }
    return GateCommand(**known | changed)  # type: ignore[arg-type]


class CountedWords(ClockWords):
    """The words, and how often the gatekeeper has looked at those of ranks."""

    looks = 0

    def queued(self) -> tuple[int, ...]:
        self.looks += 1
        return super().queued()

    def arrived(self) -> tuple[int, ...]:
        self.looks += 1
        return super().arrived()

    def done(self) -> tuple[int, ...]:
        self.looks += 1
        return super().done()

    def wait_for_looks(self) -> None:
        """Return once it has looked a thousand times more: what it waits for is not what is there."""
        wanted = self.looks + 1000
        while self.looks < wanted:
            os.sched_yield()


class Timing(threading.Thread):
    """One call being timed; `answer` is there once it has ended."""

    def __init__(self, page: Page, command: GateCommand, channel: socket.socket) -> None:
        super().__init__(daemon=True)
        self.words = CountedWords(page.page, ranks=RANKS)
        self._command, self._channel = command, channel
        self.posted = Ends(mmap.mmap(-1, ends_page.BYTES))
        self.answer: dict[str, object] = {}
        self.start()

    def run(self) -> None:
        self.answer = timed(self.words, self._command, self._channel, self.posted)

    def ended(self) -> dict[str, object]:
        self.join(30)
        assert not self.is_alive(), "the call has not ended"
        return self.answer


def together(*steps: Callable[[], object]) -> list[threading.Thread]:
    """Every step in a thread of its own."""
    threads = [threading.Thread(target=step, daemon=True) for step in steps]
    for thread in threads:
        thread.start()
    return threads


def rank_that_answers(page: Page, rank: int, number: int) -> Callable[[], None]:
    """All that a rank does in a call."""

    def answer() -> None:
        page.arrive(rank, number)
        page.queue(rank, number)
        page.wait_for_opening(rank, number)
        page.finish(rank, number, mark=100 + rank)

    return answer


# ---- the opening ------------------------------------------------------------------------------------------------


def test_the_gates_open_as_soon_as_all_have_queued(page: Page, ends: tuple[socket.socket, socket.socket]) -> None:
    timing = Timing(page, a_command(), ends[1])
    together(*(rank_that_answers(page, rank, 7) for rank in range(RANKS)))
    answer = timing.ended()
    assert answer["has_queued"] is True
    assert 0 <= answer["head_ns"] < EVER_NS
    assert all(done >= 0 for done in answer["done_ns"])
    assert answer["marks"] == [f"{100 + rank:032x}" for rank in range(RANKS)]
    assert [timing.posted.has_come(rank, 70) for rank in range(RANKS)] == [True] * RANKS, "oracle ranks hear of it"


def test_no_gate_opens_while_a_rank_is_still_queueing(page: Page, ends: tuple[socket.socket, socket.socket]) -> None:
    timing = Timing(page, a_command(), ends[1])
    for rank in range(RANKS):
        page.arrive(rank, 7)
    page.queue(0, 7)
    page.queue(1, 6)  # of the call before
    timing.words.wait_for_looks()
    assert not any(page.is_open(rank, 7) for rank in range(RANKS))
    page.queue(1, 7)
    for rank in range(RANKS):
        page.wait_for_opening(rank, 7)
        page.finish(rank, 7)
    assert timing.ended()["has_queued"] is True


def test_the_launch_ahead_is_over_where_a_rank_waits_for_its_device(
    page: Page, ends: tuple[socket.socket, socket.socket]
) -> None:
    timing = Timing(page, a_command(head_ns=SOON_NS), ends[1])
    for rank in range(RANKS):
        page.arrive(rank, 7)
    for rank in range(RANKS):
        page.wait_for_opening(rank, 7)
        page.queue(rank, 7)
        page.finish(rank, 7)
    answer = timing.ended()
    assert answer["has_queued"] is False
    assert answer["head_ns"] >= SOON_NS
    assert min(answer["done_ns"]) >= 0


def test_a_program_that_is_known_to_wait_launches_ahead_to_the_end(
    page: Page, ends: tuple[socket.socket, socket.socket]
) -> None:
    """Though everything happens to be queued sooner this time: every call of a series begins the same way."""
    timing = Timing(page, a_command(head_ns=SOON_NS, waits_for_queue=False), ends[1])
    together(*(rank_that_answers(page, rank, 7) for rank in range(RANKS)))
    assert timing.ended()["head_ns"] >= SOON_NS


def test_gates_open_when_every_device_has_come_to_its_own(
    page: Page, ends: tuple[socket.socket, socket.socket]
) -> None:
    timing = Timing(page, a_command(head_ns=0), ends[1])
    page.arrive(0, 7)
    timing.words.wait_for_looks()
    assert not any(page.is_open(rank, 7) for rank in range(RANKS))
    page.arrive(1, 7)
    for rank in range(RANKS):
        page.wait_for_opening(rank, 7)
        page.queue(rank, 7)
        page.finish(rank, 7)
    timing.ended()


def test_the_key_is_not_on_the_page_before_the_opening(page: Page, ends: tuple[socket.socket, socket.socket]) -> None:
    """Until a rank's last word that it has queued, its inputs are bytes under a keystream for everybody."""
    timing = Timing(page, a_command(), ends[1])
    for rank in range(RANKS):
        page.arrive(rank, 7)
    page.queue(0, 7)
    timing.words.wait_for_looks()
    assert page.key() == bytes(len(KEY))
    page.queue(1, 7)
    page.wait_for_opening(0, 7)
    assert page.key() == KEY
    for rank in range(RANKS):
        page.finish(rank, 7)
    timing.ended()


def test_late_ranks_gates_open_later_by_their_delays(page: Page, ends: tuple[socket.socket, socket.socket]) -> None:
    seen: dict[int, int] = {}

    def rank_that_notes(rank: int) -> Callable[[], None]:
        def note() -> None:
            page.arrive(rank, 7)
            page.queue(rank, 7)
            seen[rank] = page.wait_for_opening(rank, 7)
            page.finish(rank, 7)

        return note

    begun = time.monotonic_ns()
    timing = Timing(page, a_command(delays_ns=(SOON_NS, 0)), ends[1])
    together(*(rank_that_notes(rank) for rank in range(RANKS)))
    answer = timing.ended()
    # Both times run from the first gate's opening.
    assert answer["done_ns"][0] >= SOON_NS
    assert seen[0] - begun >= SOON_NS + answer["head_ns"]


# ---- the end ----------------------------------------------------------------------------------------------------


def test_an_end_counts_when_the_program_has_returned_too(page: Page, ends: tuple[socket.socket, socket.socket]) -> None:
    """A device that is finished while its program still runs on the host has not ended the call."""
    timing = Timing(page, a_command(head_ns=0), ends[1])
    for rank in range(RANKS):
        page.arrive(rank, 7)
    for rank in range(RANKS):
        page.wait_for_opening(rank, 7)
        page.finish(rank, 7)
    page.queue(0, 7)
    timing.words.wait_for_looks()
    assert timing.is_alive()
    page.queue(1, 7)
    assert min(timing.ended()["done_ns"]) >= 0


def test_words_of_an_earlier_call_end_nothing(page: Page, ends: tuple[socket.socket, socket.socket]) -> None:
    for rank in range(RANKS):
        page.finish(rank, 6)
        page.queue(rank, 6)
    timing = Timing(page, a_command(head_ns=0), ends[1])
    for rank in range(RANKS):
        page.arrive(rank, 7)
    for rank in range(RANKS):
        page.wait_for_opening(rank, 7)
    page.queue(0, 7)
    page.queue(1, 7)
    page.finish(0, 7)
    timing.words.wait_for_looks()
    assert timing.is_alive()
    page.finish(1, 7)
    assert min(timing.ended()["done_ns"]) >= 0


def test_an_end_that_never_comes_is_given_up_at_the_limit(
    page: Page, ends: tuple[socket.socket, socket.socket]
) -> None:
    for rank in range(RANKS):
        page.arrive(rank, 7)
        page.queue(rank, 7)
    page.finish(0, 7)
    timing = Timing(page, a_command(limit_ns=SOON_NS), ends[1])
    answer = timing.ended()
    assert answer["done_ns"][1] == -1
    assert answer["done_ns"][0] >= 0
    assert timing.posted.has_come(0, 70) is True
    assert timing.posted.has_come(1, 70) is None, "nobody waits for it any more"


def test_a_call_is_ended_when_the_judge_says_so(page: Page, ends: tuple[socket.socket, socket.socket]) -> None:
    judge, keeper = ends
    timing = Timing(page, a_command(head_ns=0), keeper)
    for rank in range(RANKS):
        page.arrive(rank, 7)
    for rank in range(RANKS):
        page.wait_for_opening(rank, 7)
    judge.send(b"stop")
    assert timing.ended()["done_ns"] == [-1] * RANKS


def test_a_call_whose_devices_never_come_to_their_gates_is_ended_too(
    page: Page, ends: tuple[socket.socket, socket.socket]
) -> None:
    judge, keeper = ends
    timing = Timing(page, a_command(head_ns=0), keeper)
    page.arrive(0, 7)
    judge.send(b"stop")
    assert timing.ended()["done_ns"] == [-1] * RANKS
    assert page.key() == bytes(len(KEY)), "nobody needs the key of a call that will not be"


# ---- over a real process -----------------------------------------------------------------------------------------


@pytest.fixture
def clock() -> Iterator[GateClock]:
    with Spawner() as spawner, GateClock(spawner=spawner, cores=sorted(os.sched_getaffinity(0))) as started:
        yield started


def opening(**changed: object) -> Opening:
    known = {"key": KEY, "head_s": 10.0, "waits_for_queue": True, "delays_us": (0,) * RANKS}
    return Opening(**known | changed)  # type: ignore[arg-type]


def a_call(clock: GateClock, clock_page: ClockPage, page: Page, number: int) -> CallTime:
    clock.begin(clock_page, opening(), number=number, limit_s=60.0)
    for thread in together(*(rank_that_answers(page, rank, number) for rank in range(RANKS))):
        thread.join(30)
    return clock.finish()


def test_call_after_call_is_timed_by_one_process(clock: GateClock, clock_page: ClockPage, page: Page) -> None:
    for number in range(1, 6):
        begun = time.monotonic_ns()
        found = a_call(clock, clock_page, page, number)
        assert found.has_queued
        assert found.head_ns >= 0
        assert 0 <= found.longest_ns <= time.monotonic_ns() - begun
        assert found.longest_ns == max(found.done_ns)
        assert found.marks == tuple(f"{100 + rank:032x}" for rank in range(RANKS))


def test_a_clock_may_be_closed_twice(clock: GateClock) -> None:
    clock.close()
    clock.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(clock.ends)


def test_two_groups_take_turns_at_one_clock(clock: GateClock, clock_page: ClockPage, page: Page) -> None:
    """Each with a page of its own: the numbers of one say nothing to the other."""
    other = ClockPage()
    try:
        for number in (3, 4):
            assert a_call(clock, clock_page, page, number).has_queued
            assert a_call(clock, other, Page(other.descriptor), number).has_queued
    finally:
        other.close()


@pytest.mark.parametrize("has_come", [True, False])
def test_ranks_that_answer_without_an_end_are_named(
    clock: GateClock, clock_page: ClockPage, page: Page, *, has_come: bool
) -> None:
    """A rank that forges its answer to the host does not thereby forge its device's; the next call is timed again."""
    clock.begin(clock_page, opening(head_s=0.001), number=1, limit_s=60.0)
    for rank in range(RANKS if has_come else 1):
        page.arrive(rank, 1)
        page.queue(rank, 1)
    if has_come:
        page.wait_for_opening(0, 1)
    page.finish(0, 1)
    with pytest.raises(UnseenEnd, match="devices of ranks 1") as caught:
        clock.finish()
    assert caught.value.ranks == (1,)
    assert a_call(clock, clock_page, page, 2).has_queued


@pytest.mark.parametrize("arrived", [0, 1, RANKS])
def test_a_call_that_is_abandoned_does_not_hold_up_the_next(
    clock: GateClock, clock_page: ClockPage, page: Page, arrived: int
) -> None:
    """Ranks may end before their devices have come to their gates, and after."""
    clock.begin(clock_page, opening(head_s=0.001), number=1, limit_s=60.0)
    for rank in range(arrived):
        page.arrive(rank, 1)
    clock.abandon()
    assert a_call(clock, clock_page, page, 2).has_queued
    clock.abandon()  # nothing is timed: nothing to forget


def test_a_stop_that_comes_after_the_end_is_no_order(clock: GateClock, clock_page: ClockPage, page: Page) -> None:
    clock.begin(clock_page, opening(), number=1, limit_s=60.0)
    for thread in together(*(rank_that_answers(page, rank, 1) for rank in range(RANKS))):
        thread.join(30)
    clock.abandon()
    assert a_call(clock, clock_page, page, 2).has_queued


def test_a_gatekeeper_that_goes_in_a_call_is_our_fault_and_the_next_call_has_a_new_one(
    clock: GateClock, clock_page: ClockPage, page: Page
) -> None:
    clock.begin(clock_page, opening(), number=1, limit_s=60.0)
    (gone,) = clock.processes
    os.kill(gone, signal.SIGKILL)
    with pytest.raises(EvaluatorError, match="the gatekeeper has"):
        clock.finish()
    assert a_call(clock, clock_page, page, 2).has_queued
    assert clock.processes != [gone]


def test_a_gatekeeper_that_stands_still_is_replaced_and_its_late_answer_is_nobodys(
    clock: GateClock, clock_page: ClockPage, page: Page
) -> None:
    (still,) = clock.processes
    os.kill(still, signal.SIGSTOP)
    clock.begin(clock_page, opening(), number=1, limit_s=60.0)
    with pytest.raises(EvaluatorError, match="it does not answer"):
        clock.finish()
    assert a_call(clock, clock_page, page, 2).has_queued
    assert clock.processes != [still]


def test_oracle_ranks_get_ends_whatever_becomes_of_the_gatekeeper(
    clock: GateClock, clock_page: ClockPage, page: Page
) -> None:
    posted, ticket = Ends(mmap.mmap(clock.ends, ends_page.BYTES)), clock.upcoming
    a_call(clock, clock_page, page, 1)
    assert [posted.has_come(rank, ticket) for rank in range(RANKS)] == [True] * RANKS
    later = clock.upcoming
    assert later != ticket
    assert [posted.has_come(rank, later) for rank in range(RANKS)] == [False] * RANKS, "it has not begun"
    clock.give_up(later)
    assert [posted.has_come(rank, later) for rank in range(RANKS)] == [None] * RANKS


def test_commands_cross_as_they_are() -> None:
    command = a_command(delays_ns=(5, 0), limit_ns=3)
    assert GateCommand.from_json(command.to_json()) == command
    assert json.loads(command.to_json())["key"] == KEY.hex()
