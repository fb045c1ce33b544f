"""Who is blamed when a worker group ends: pure functions over incidents, without processes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.arena.protocol import CHANNEL_LOST, SHIM_FAILED, Failure
from evaluator.arena.rank.flight_notes import summary
from evaluator.contract import Collective, Verdict
from evaluator.host.hangs import flight_recorder
from evaluator.host.hangs.diagnosis import findings_of, rank_states
from evaluator.host.hangs.incidents import Incident, IncidentKind, Observation, Standing, WorkerGroupFailure
from evaluator.host.hangs.stacks import has_threads_that_may_act, main_thread, native, own_frame, traced, waits_in

KILLED, EXIT_0, EXIT_3 = 9, 0, 3 << 8


def seen(rank: int, standing: Standing, location: str = "somewhere") -> Observation:
    return Observation(rank=rank, standing=standing, location=location, calls_done=0, exit="running")


def failure(incidents: list[Incident], *standings: Standing) -> WorkerGroupFailure:
    observations = tuple(seen(rank, standing, f"location {rank}") for rank, standing in enumerate(standings))
    return WorkerGroupFailure(tuple(incidents), observations, doing="call 4", limit_s=10.0)


def exited(rank: int, status: int, at: float) -> Incident:
    return Incident(kind=IncidentKind.EXITED, at=at, rank=rank, status=status)


def closed(rank: int, at: float) -> Incident:
    return Incident(kind=IncidentKind.CLOSED, at=at, rank=rank)


def raised(rank: int, at: float, text: str = "ValueError: no") -> Incident:
    return Incident(kind=IncidentKind.FAILED, at=at, rank=rank, failure=Failure.RAISED, text=text)


OVERDUE = Incident(kind=IncidentKind.OVERDUE, at=10.0)
STALLED = Incident(kind=IncidentKind.STALLED, at=3.0)
MEMORY = Incident(kind=IncidentKind.MEMORY, at=1.2, rank=1, text="17.6 GB for all ranks together")
ENDED = Incident(kind=IncidentKind.SANDBOX_ENDED, at=1.1)
VIOLATION = Incident(kind=IncidentKind.VIOLATION, at=1.2, rank=0)
ALIVE = Standing.IN_COLLECTIVE


@pytest.mark.parametrize(
    ("incidents", "standings", "verdict", "rank"),
    [
        ([closed(1, 1.0), exited(1, KILLED, 1.01)], (ALIVE, Standing.ENDED), Verdict.CRASHED, 1),
        ([closed(1, 1.0), exited(1, EXIT_0, 1.01)], (ALIVE, Standing.ENDED), Verdict.EARLY_EXIT, 1),
        ([closed(1, 1.0), exited(1, EXIT_3, 1.01)], (ALIVE, Standing.ENDED), Verdict.CRASHED, 1),
        ([closed(0, 1.0), exited(0, CHANNEL_LOST << 8, 1.01)], (Standing.ENDED, ALIVE), Verdict.EARLY_EXIT, 0),
        ([closed(0, 1.0)], (Standing.ENDED, ALIVE), Verdict.EARLY_EXIT, 0),
        ([raised(1, 1.0)], (ALIVE, Standing.FAILED), Verdict.RUNTIME_ERROR, 1),
        # A peer's error that arrives just before the death that caused it.
        ([raised(0, 1.0), closed(1, 1.05), exited(1, KILLED, 1.06)], (ALIVE, Standing.ENDED), Verdict.CRASHED, 1),
        # An error long before a death is a cause of its own.
        ([raised(0, 1.0), exited(1, KILLED, 2.0)], (Standing.FAILED, Standing.ENDED), Verdict.RUNTIME_ERROR, 0),
        ([raised(0, 1.0, "RuntimeError: can't allocate memory")], (ALIVE, ALIVE), Verdict.OUT_OF_MEMORY, 0),
        ([raised(0, 1.0, "RuntimeError: CUDA error: an illegal memory access")], (ALIVE, ALIVE), Verdict.CRASHED, 0),
        ([exited(1, SHIM_FAILED << 8, 1.0)], (ALIVE, Standing.ENDED), Verdict.RUNTIME_ERROR, 1),
        ([closed(0, 1.0), ENDED], (Standing.ENDED, Standing.ENDED), Verdict.JUDGE_ERROR, None),
        ([raised(1, 1.0), VIOLATION], (ALIVE, Standing.FAILED), Verdict.TAMPERED, 0),
        ([OVERDUE], (Standing.IN_COLLECTIVE, Standing.FINISHED), Verdict.DEADLOCK, 0),
        ([STALLED], (Standing.IN_COLLECTIVE, Standing.IN_COLLECTIVE), Verdict.DEADLOCK, 0),
        # Two looks showed both waiting; the last one came in half.
        ([STALLED], (Standing.IN_COLLECTIVE, Standing.SLEEPING), Verdict.DEADLOCK, 0),
        ([closed(1, 1.0), exited(1, KILLED, 1.01), MEMORY], (ALIVE, Standing.ENDED), Verdict.OUT_OF_MEMORY, 1),
        ([OVERDUE], (Standing.IN_COLLECTIVE, Standing.IN_COLLECTIVE), Verdict.DEADLOCK, 0),
        ([OVERDUE], (Standing.IN_COLLECTIVE, Standing.WORKING), Verdict.TIMEOUT, 1),
        ([OVERDUE], (Standing.ON_DEVICE, Standing.FINISHED), Verdict.DEADLOCK, 0),
        ([OVERDUE], (Standing.ON_DEVICE, Standing.ON_DEVICE), Verdict.TIMEOUT, 0),
    ],
)
def test_cause_is_distinguished_from_consequence(
    incidents: list[Incident], standings: tuple[Standing, ...], verdict: Verdict, rank: int | None
) -> None:
    (finding,) = findings_of(failure(incidents, *standings), size="tiny")
    assert (finding.verdict, finding.rank) == (verdict, rank)


def test_a_rank_that_works_is_named_before_one_whose_threads_may_act_while_it_waits():
    found = findings_of(failure([OVERDUE], Standing.BESIDE_THREADS, Standing.WORKING), size=None)
    assert [(each.verdict, each.rank) for each in found] == [(Verdict.TIMEOUT, 1)]
    alone = findings_of(failure([OVERDUE], Standing.BESIDE_THREADS, Standing.IN_COLLECTIVE), size=None)
    assert [(each.verdict, each.rank) for each in alone] == [(Verdict.TIMEOUT, 0)]


def test_a_shims_failure_while_loading_is_no_failure_of_ours_once_a_submission_shares_its_process() -> None:
    observations = (seen(0, ALIVE), seen(1, Standing.ENDED))
    incidents = (exited(1, SHIM_FAILED << 8, 1.0),)
    (finding,) = findings_of(
        WorkerGroupFailure(incidents, observations, doing="loading call 4", limit_s=1.0), size="tiny"
    )
    assert finding.verdict is Verdict.RUNTIME_ERROR


def test_an_extension_that_was_called_with_other_types_says_which_it_takes() -> None:
    text = (
        'Traceback (most recent call last):\n  File "/source/solution.py", line 9, in solution\n'
        "TypeError: push(): incompatible function arguments. The following argument types are supported:\n"
        "    1. (arg0: torch.Tensor, arg1: int) -> None\n\nInvoked with: tensor([[1., 2.]]), tensor([3.])\n"
    )
    (finding, *_) = findings_of(failure([raised(0, 1.0, text)], Standing.FAILED, ALIVE), size="tiny")
    assert "supported: 1. (arg0: torch.Tensor, arg1: int) -> None" in finding.message
    assert "Invoked with" not in finding.message


def test_a_missing_handle_of_symmetric_memory_says_which_tensors_have_none() -> None:
    text = "AttributeError: 'NoneType' object has no attribute 'buffer_ptrs'"
    (finding, *_) = findings_of(failure([raised(0, 1.0, text)], Standing.FAILED, ALIVE), size="tiny")
    assert f"{text}; torch's rendezvous gives no handle for a tensor without elements" in finding.message


@pytest.mark.parametrize(
    ("elsewhere", "has_reason"), [("rendezvous", True), ("barrier", False)], ids=["in one line", "in two operations"]
)
def test_ranks_that_all_wait_in_a_rendezvous_read_what_numbers_them(elsewhere: str, *, has_reason: bool) -> None:
    observations = tuple(
        seen(rank, Standing.IN_COLLECTIVE, f"waits in {operation} called at solution.py:9 (its GPU 0 % busy)")
        for rank, operation in enumerate(("rendezvous", elsewhere))
    )
    (finding,) = findings_of(WorkerGroupFailure((OVERDUE,), observations, doing="call 1", limit_s=40.0), size="base")
    assert finding.verdict is Verdict.DEADLOCK
    assert ("in the same order" in finding.message) is has_reason


def test_message_names_the_exception_of_a_traceback_with_a_long_message() -> None:
    text = "Traceback (most recent call last):\n  File x\nRuntimeError: CUDA error: busy\nCompile with `X`.\n\n"
    (finding,) = findings_of(failure([raised(0, 1.0, text)], Standing.FAILED, ALIVE), size="tiny")
    assert "RuntimeError: CUDA error: busy" in finding.message


def test_a_hang_names_every_rank_and_its_location() -> None:
    (finding,) = findings_of(failure([OVERDUE], Standing.IN_COLLECTIVE, Standing.FINISHED), size="tiny")
    assert "rank 0 location 0; rank 1 location 1" in finding.message
    assert "call 4 took longer than 10 s" in finding.message


def test_observations_become_rank_states() -> None:
    (state,) = rank_states([seen(0, Standing.FINISHED, "waits at the end of call 2")])
    assert state.phase == "waits at the end of call 2"


def collective(
    operation: str, number: int | None, *, is_done: bool = False, ranks: tuple[int, ...] = (0, 1, 2)
) -> Collective:
    return Collective(
        operation=operation,
        number=number,
        sequence=40 + (number or 0),
        ranks=ranks,
        tensors="float[4]",
        is_done=is_done,
    )


def waiting(rank: int, *collectives: Collective) -> Observation:
    where = flight_recorder.words(collectives, world_size=3)
    return Observation(
        rank=rank,
        standing=Standing.ON_DEVICE,
        location=f"waits for its GPU ({where})",
        calls_done=0,
        exit="running",
        collectives=collectives,
    )


def on_devices(*collectives: Collective) -> WorkerGroupFailure:
    observations = tuple(waiting(rank, one) for rank, one in enumerate(collectives))
    return WorkerGroupFailure((OVERDUE,), observations, doing="call 4", limit_s=10.0)


def test_ranks_in_different_collectives_are_a_deadlock_even_where_every_gpu_is_busy() -> None:
    seventh, sixth = collective("all_reduce", 7), collective("all_gather", 6)
    (finding,) = findings_of(on_devices(seventh, seventh, sixth), size="base")
    assert finding.verdict is Verdict.DEADLOCK
    assert "ranks 0, 1 wait for their GPU (collective 7 of the call, all_reduce of float[4])" in finding.message
    assert "rank 2 waits for its GPU (collective 6 of the call, all_gather of float[4])" in finding.message


def test_ranks_in_the_same_collective_may_be_slow() -> None:
    (finding,) = findings_of(on_devices(*[collective("all_reduce", 7)] * 3), size="base")
    assert finding.verdict is Verdict.TIMEOUT


def test_groups_of_ranks_count_by_themselves() -> None:
    pair, other = collective("all_reduce", 1, ranks=(0, 1)), collective("all_gather", 2, ranks=(2,))
    (finding,) = findings_of(on_devices(pair, pair, other), size="base")
    assert finding.verdict is Verdict.TIMEOUT
    assert "all_reduce of float[4] among ranks 0, 1" in finding.message


@pytest.mark.parametrize(
    ("collectives", "said"),
    [
        ([], ""),
        ([collective("all_reduce", 0, is_done=True)], "no collective in the call"),
        ([collective("barrier", 3, is_done=True)], "its last: collective 3 of the call, barrier of float[4]"),
        ([collective("barrier", None)], "collective 40 since the start, barrier of float[4]"),
        ([collective("all_reduce_barrier", 3)], "collective 3 of the call, barrier"),
    ],
)
def test_a_rank_stands_among_its_collectives(collectives: list[Collective], said: str) -> None:
    assert flight_recorder.words(collectives, world_size=3) == said


def entry(
    sequence: int, at: int, *, group: str = "0", is_done: bool = True, name: str = "gloo:all_reduce"
) -> dict[str, object]:
    return {
        "profiling_name": name,
        "collective_seq_id": sequence,
        "p2p_seq_id": 0,
        "is_p2p": False,
        "process_group": [group, "default_pg"],
        "time_created_ns": at,
        "input_sizes": [[4, 8]],
        "input_dtypes": ["Float"],
        "retired": is_done,
        "state": "scheduled",
    }


def test_collectives_are_counted_from_the_call_on_and_per_group() -> None:
    entries = [entry(1, 10), entry(2, 20), entry(3, 110), entry(1, 115, group="1"), entry(4, 120, is_done=False)]
    unfinished, last = summary(entries, ranks_of={"0": [0, 1], "1": [1]}, since_ns=100)
    assert (unfinished["number"], unfinished["sequence"], unfinished["tensors"]) == (2, 4, "float[4, 8]")
    assert (last["number"], last["ranks"], last["is_done"]) == (1, [1], True)


def test_a_recorder_that_has_forgotten_the_start_of_the_call_gives_no_number_in_it() -> None:
    (unfinished,) = summary([entry(3001, 110, is_done=False)], ranks_of={}, since_ns=100)
    assert (unfinished["number"], unfinished["sequence"]) == (None, 3001)


@given(st.text() | st.binary().map(lambda raw: raw.decode("utf-8", "replace")))
def test_what_a_rank_writes_in_place_of_its_collectives_is_read_as_none(text: str) -> None:
    assert flight_recorder.read(text) == ()


@pytest.mark.parametrize(
    "changed",
    [
        {"operation": "x" * 65},
        {"operation": "<b>"},
        {"tensors": "&" * 3},
        {"number": -1},
        {"ranks": [99]},
    ],
)
def test_a_note_that_our_code_does_not_write_is_passed_over(changed: dict[str, object]) -> None:
    right = {"operation": "send", "ranks": [0], "number": 1, "sequence": 1, "tensors": "", "is_done": False}
    assert flight_recorder.read(json.dumps([right]))
    assert flight_recorder.read(json.dumps([right | changed])) == ()


def waiting_in(operation: str, *, sequence: int = 1, ranks: tuple[int, ...] = (0, 1)) -> Collective:
    return Collective(operation=operation, ranks=ranks, number=1, sequence=sequence, tensors="", is_done=False)


@pytest.mark.parametrize(
    ("operations", "is_deadlock"),
    [
        ([["recv 0<-1", "send 0->1"], ["recv 1<-0", "send 1->0"]], True),
        ([["recv 0<-2"], ["recv 1<-0"], ["recv 2<-1"]], True),
        # Both ends of every send are there: who has begun all of them without waiting may only be slow.
        ([["send 0->1", "recv 0<-2"], ["send 1->2", "recv 1<-0"], ["send 2->0", "recv 2<-1"]], False),
        ([["send 0->1"], ["recv 1<-0"]], False),
        ([["recv 0<-1"], ["send 1->0"], ["recv 2<-1"]], False),
        ([["send 0->1"], ["recv 1<-0"], ["all_reduce"], ["all_reduce"]], False),
        ([["recv 0<-1"], ["all_reduce"]], True),
        ([["all_reduce"], ["all_gather"]], True),
        ([["all_reduce"], ["all_reduce"]], False),
    ],
)
def test_ranks_that_wait_on_their_gpus_differ_from_slow_ones_by_what_they_wait_for(
    operations: list[list[str]], *, is_deadlock: bool
) -> None:
    ranks = tuple(range(len(operations)))
    waiting = [
        [waiting_in(operation, sequence=number, ranks=ranks) for number, operation in enumerate(own, start=1)]
        for own in operations
    ]
    assert flight_recorder.are_apart(waiting) is is_deadlock


def test_receives_of_some_ranks_say_nothing_while_another_rank_is_at_work() -> None:
    assert not flight_recorder.are_apart([[waiting_in(f"recv {rank}<-0", ranks=(0, 1, 2))] for rank in (1, 2)])


def test_sends_and_receives_of_one_batch_do_not_wait_for_one_another():
    waiting = [
        [waiting_in(f"{kind} {own}{arrow}{1 - own}") for kind, arrow in (("send", "->"), ("recv", "<-"))]
        for own in (0, 1)
    ]
    assert not flight_recorder.are_apart(waiting)


def test_a_receive_beside_a_collective_says_nothing_while_another_rank_is_at_work():
    ranks = (0, 1, 2)
    assert not flight_recorder.are_apart(
        [[waiting_in("recv 0<-1", ranks=ranks)], [waiting_in("all_reduce", ranks=ranks)]]
    )


def test_a_receive_is_read_as_the_recorder_of_nccl_names_it() -> None:
    note = {"operation": "recv 0<-1", "ranks": [0, 1], "number": 1, "sequence": 1, "tensors": "", "is_done": False}
    (read,) = flight_recorder.read(json.dumps([note]))
    assert read.operation == "recv 0<-1"


DUMP = """Thread 0x00007f0000000001 (most recent call first):
  File "/usr/lib/python3/threading.py", line 300 in wait
  File "/judge/evaluator/arena/rank/flight_notes.py", line 60 in _wait

Current thread 0x00007f0000000002 (most recent call first):
  File "/venv/torch/distributed/distributed_c10d.py", line 3100 in all_reduce
  File "/venv/torch/distributed/c10d_logger.py", line 81 in wrapper
  File "/source/solution.py", line 7 in helper
  File "/source/solution.py", line 12 in solution
  File "/judge/evaluator/arena/rank/shim.py", line 250 in called
"""


def test_stack_shows_where_a_rank_waits() -> None:
    frames = main_thread(DUMP)
    own = own_frame(frames, source="/source")
    assert own is not None
    assert (own.file, own.line, own.name) == ("solution.py", 7, "helper")
    assert waits_in(frames, source="/source") == "all_reduce"


CHAINED = """Traceback (most recent call last):
  File "/source/solution.py", line 3, in solution
    first()
ValueError: no

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/source/solution.py", line 9, in solution
    parts.last(tensor)
  File "/source/parts/last.py", line 5, in last
    dist.all_reduce(3)
  File "/venv/torch/distributed/c10d_logger.py", line 83, in wrapper
    return func(*args, **kwargs)
TypeError: no tensor
"""
SYNTAX = """  File "/source/solution.py", line 4
    def (
        ^
SyntaxError: invalid syntax
"""


@pytest.mark.parametrize(
    ("text", "place"), [(CHAINED, ("parts/last.py", 5)), (SYNTAX, ("solution.py", 4)), ("ValueError: no", None)]
)
def test_a_traceback_ends_at_the_last_line_of_the_submissions_own(text: str, place: tuple[str, int] | None) -> None:
    own = own_frame(traced(text), source="/source")
    assert (own and (own.file, own.line)) == place


def test_a_loop_caught_while_it_asks_for_its_rank_waits_for_nobody() -> None:
    frames = main_thread(DUMP.replace("in all_reduce", "in get_rank").replace("c10d_logger.py", "distributed_c10d.py"))
    assert waits_in(frames, source="/source") is None


def thread(*frames: str) -> str:
    return "\n".join(["Thread 0x00007f0000000003 (most recent call first):", *frames, "", ""])


@pytest.mark.parametrize(
    ("other", "may_act"),
    [
        ("", False),
        (thread('  File "/judge/evaluator/arena/rank/flight_notes.py", line 50 in _run'), False),
        (thread('  File "/usr/lib/python3.11/concurrent/futures/thread.py", line 81 in _worker'), False),
        (thread('  File "/source/solution.py", line 30 in helper'), True),
        (
            thread(
                '  File "/usr/lib/python3.11/threading.py", line 331 in wait',
                '  File "/usr/lib/python3.11/threading.py", line 1394 in run',
            ),
            True,
        ),
    ],
    ids=["alone", "our own", "a pool's that waits for work", "the submission's", "a timer"],
)
def test_a_thread_that_is_neither_ours_nor_asleep_for_good_may_still_act(other: str, may_act: bool) -> None:  # noqa: FBT001
    assert has_threads_that_may_act(other + DUMP) is may_act


NATIVE = """SIGINT(2), PID: 12, Thread 12:
 frame #0: c10::FatalSignalHandler::stacktraceSignalHandler(bool) + 0x8f (0x7f0eec990c4f in /venv/torch/lib/libc10.so)
frame #1: c10::FatalSignalHandler::fatalSignalHandler(int, siginfo_t*) + 0x2da (0x7f0eec99127a in /v/libc10.so)
frame #2: <unknown function> + 0x3c050 (0x7f0eeec5a050 in /lib/x86_64-linux-gnu/libc.so.6)
frame #3: pthread_cond_wait + 0x1e8 (0x7f0eeeca65d8 in /lib/x86_64-linux-gnu/libc.so.6)
frame #4: c10d::Work::wait(std::chrono::duration<long>) + 0x5b (0x7f0ede56984b in /venv/torch/lib/libtorch_cpu.so)
<omitting python frames>

SIGINT(2), PID: 12, Thread 14:
 frame #0: c10::FatalSignalHandler::stacktraceSignalHandler(bool) + 0x8f (0x7f0eec990c4f in /venv/torch/lib/libc10.so)
frame #1: <unknown function> + 0x3c050 (0x7f0eeec5a050 in /lib/x86_64-linux-gnu/libc.so.6)
frame #2: epoll_wait + 0x56 (0x7f0eeed26f36 in /lib/x86_64-linux-gnu/libc.so.6)
and a line of the submission's own
"""


def test_native_stacks_show_functions_and_libraries_without_the_handler() -> None:
    assert native(NATIVE) == (
        "thread 12:\n  pthread_cond_wait + 0x1e8 in libc.so.6\n"
        "  c10d::Work::wait(std::chrono::duration<long>) + 0x5b in libtorch_cpu.so\n  (Python)\n\n"
        "thread 14:\n  epoll_wait + 0x56 in libc.so.6"
    )
    assert native("anything else") == ""
