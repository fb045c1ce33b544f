"""The timeline of a recorded call: its file, its clock, where its time went, and the judge's own recording."""

import dataclasses
import json
import os

import msgspec
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evaluator.arena import profiler, trace_events
from evaluator.arena.recording import FILE_BYTES, MOST_SPANS, Recording, Span, WorkName, packed
from evaluator.arena.recording import Kind as SpanKind
from evaluator.contract import EvaluationReport, Mode, Primitive, Verdict
from evaluator.contract import SpanKind as Kind
from evaluator.host.measure import recorded_call
from evaluator.host.measure.recorded_call import Window
from evaluator.judging.call_advice import Idle, idle_by_cause, short
from evaluator.judging.call_parts import Gap, LowerBound, length, moved_by_kernels, united, without
from evaluator.judging.time_split import split
from tests.evaluator.judging_help import request_for
from tests.evaluator.timelines import GEMM, NCCL, OWN, PEER_COPY, SYNCHRONISE, call

CPU = torch.device("cpu")
WINDOW = Window(opens_ns=1_000, closes_ns=9_000_000)
SPANS = st.builds(
    Span,
    kind=st.sampled_from(SpanKind),
    lane=st.integers(0, 1),
    name=st.integers(0, 1),
    start_ns=st.integers(0, 2**63 - 1),
    ns=st.integers(0, 2**63 - 1),
    bytes=st.integers(0, 2**63 - 1),
    flow=st.integers(0, 2**32 - 1),
)
KERNEL = {"ph": "X", "cat": "kernel", "name": OWN, "tid": 7, "args": {"stream": 7, "correlation": 5, "bytes": 0}}


def recording(spans=(), **changes) -> Recording:
    names = (WorkName(name="first", grid=(8, 1, 1), block=(256, 1, 1), registers=40), WorkName(name="second"))
    values = {"names": names, "lanes": ("stream 7", "host"), "begin_ns": 2_000, "end_ns": 8_000, "uncertainty_ns": 9}
    return Recording(spans=tuple(spans), **values | changes)


def pack(found: Recording) -> bytes:
    return packed(recording=found)


def file_with(content: bytes) -> int:
    descriptor = recorded_call.create()
    os.pwrite(descriptor, content, 0)
    return descriptor


def read(*contents: bytes):
    files = [file_with(content) for content in contents]
    try:
        return recorded_call.read_timeline(files, window=WINDOW)
    finally:
        for file in files:
            os.close(file)


def found_in(content: bytes) -> recorded_call.RankFile:
    file = file_with(content)
    try:
        return recorded_call.read(file)
    finally:
        os.close(file)


class TestFile:
    @given(st.lists(SPANS, max_size=20))
    def test_what_a_rank_writes_is_what_the_host_reads(self, spans):
        found = found_in(pack(recording(spans))).recording
        wrote = sorted((span.kind, ("first", "second")[span.name], span.start_ns, span.ns) for span in spans)
        assert sorted((span.kind, found.names[span.name].name, span.start_ns, span.ns) for span in found.spans) == wrote
        assert (found.begin_ns, found.end_ns, found.uncertainty_ns, found.dropped) == (2_000, 8_000, 9, 0)

    def test_the_longest_are_kept_where_not_all_fit(self):
        spans = [
            Span(SpanKind.COLLECTIVE, lane=0, name=ns % 500, start_ns=2**62 + ns, ns=ns, bytes=2**62, flow=2**62)
            for ns in range(MOST_SPANS + 5)
        ]
        names = tuple(WorkName("\U0001f600" * 999, grid=(2**31,) * 3, block=(2**31,) * 3) for _ in range(500))
        content = pack(recording(spans, names=names))
        assert len(content) <= FILE_BYTES, "a rank cannot write more"
        few = [span._replace(name=0) for span in spans]
        found = found_in(pack(recording(few))).recording
        assert (len(found.spans), found.dropped, min(span.ns for span in found.spans)) == (MOST_SPANS, 5, 5)

    @given(st.lists(SPANS, min_size=1, max_size=4), st.data())
    def test_a_file_that_was_changed_is_read_or_refused(self, spans, data):
        content = bytearray(pack(recording(spans)))
        index = data.draw(st.integers(0, len(content) - 1))
        content[index] = data.draw(st.integers(0, 255))
        found = found_in(bytes(content))
        assert found.recording is None or len(found.recording.spans) <= MOST_SPANS

    @pytest.mark.parametrize(("span", "lanes"), [({"name": 7}, 2), ({"lane": 2}, 2), ({}, 25), ({"start_ns": -1}, 2)])
    def test_a_span_of_a_name_or_lane_that_there_is_not_is_refused(self, span, lanes):
        one = Span(SpanKind.KERNEL, lane=0, name=0, start_ns=1, ns=1)._replace(**span)
        wrong = recording([one], lanes=("host",) * lanes)
        content = json.dumps({"rows": [], "dropped": 0, "recording": wrong, "note": ""}).encode()
        assert found_in(content).recording is None


class TestReading:
    def test_ranks_lie_on_one_clock_and_names_are_shared(self):
        early = recording([Span(kind=SpanKind.KERNEL, lane=0, name=0, start_ns=2_500, ns=100)])
        late = recording([Span(kind=SpanKind.KERNEL, lane=0, name=0, start_ns=3_500, ns=100)], begin_ns=3_000)
        found = read(pack(early), pack(late))
        assert [rank.begin_ns for rank in found.ranks] == [0, 1_000]
        assert [span.start_ns for rank in found.ranks for span in rank.spans] == [500, 1_500]
        assert [work.name for work in found.names] == ["first"]

    def test_what_lies_outside_the_hosts_window_is_left_out(self):
        spans = [
            Span(kind=SpanKind.KERNEL, lane=0, name=0, start_ns=2_500, ns=2**62),
            Span(kind=SpanKind.KERNEL, lane=0, name=0, start_ns=2_600, ns=7),
            Span(kind=SpanKind.KERNEL, lane=0, name=0, start_ns=1, ns=7),
        ]
        (rank,) = read(pack(recording(spans))).ranks
        assert [span.ns for span in rank.spans] == [7]
        assert rank.dropped == 2

    def test_a_rank_whose_call_lies_elsewhere_says_so(self):
        (rank,) = read(pack(recording(end_ns=2**60))).ranks
        assert rank.spans == ()
        assert "outside the host's window" in rank.note

    def test_control_characters_never_reach_a_page(self):
        hostile = recording(
            [Span(kind=SpanKind.KERNEL, lane=0, name=0, start_ns=2_500, ns=5)],
            names=(WorkName(name="\x1b[2J\u202egather", registers=3),),
            lanes=("stream\x07 7",),
        )
        found = read(pack(hostile))
        assert found.names[0].name == "[2Jgather"
        assert found.ranks[0].lanes == ("stream 7",)

    def test_an_empty_file_has_a_note(self):
        found = read(b"")
        assert found.is_empty
        assert found.ranks[0].note.startswith("the rank left no timeline")


class TestTrace:
    def test_marks_put_a_trace_on_the_hosts_clock(self):
        marks = [(1_000, 1_400), (5_000, 5_200)]
        trace = [
            {"ph": "X", "cat": "user_annotation", "name": trace_events.MARK, "ts": 101.2, "dur": 0.1, "tid": 1},
            {"ph": "X", "cat": "user_annotation", "name": trace_events.MARK, "ts": 105.1, "dur": 0.1, "tid": 1},
            {"ph": "X", "cat": "user_annotation", "name": trace_events.CALL, "ts": 102.0, "dur": 3.0, "tid": 1},
            {**KERNEL, "ts": 103.0, "dur": 1.5, "args": {"stream": 7, "grid": [4, 1, 1], "block": [128, 1, 1]}},
            {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 102.1, "dur": 0.2, "tid": 1},
            {"ph": "X", "cat": "cuda_runtime", "name": "cudaDeviceSynchronize", "ts": 102.5, "dur": 2.4, "tid": 1},
            {"ph": "X", "cat": "cuda_runtime", "name": "cudaGetDevice", "ts": 102.4, "dur": 0.1, "tid": 1},
            {"ph": "X", "cat": "kernel", "name": "before the call", "ts": 101.0, "dur": 0.5, "tid": 7},
        ]
        found = trace_events.recording(trace, marks=marks)
        # The profiler's clock is 99,800 to 100,200 ns ahead by the first mark and 99,900 to 100,100 by the second.
        assert (found.begin_ns, found.end_ns, found.uncertainty_ns) == (2_000, 5_000, 100)
        assert found.lanes == ("stream 7", "host")
        assert [(span.kind, span.start_ns, span.ns) for span in found.spans] == [
            (SpanKind.KERNEL, 3_000, 1_500),
            (SpanKind.LAUNCH, 2_100, 200),
            (SpanKind.WAIT, 2_500, 2_400),
        ]
        assert found.names[0].grid == (4, 1, 1)

    def test_what_is_queued_behind_a_gate_belongs_to_the_call_and_the_judges_own_work_does_not(self):
        def host(name, start, us, **more):
            return {"ph": "X", "name": name, "ts": start, "dur": us, "tid": 1, **more}

        def started(name, start, number):
            return host(name, start, 0.5, cat="cuda_driver", args={"correlation": number})

        def ran(name, start, us, number):
            return {**KERNEL, "name": name, "ts": start, "dur": us, "args": {"stream": 7, "correlation": number}}

        trace = [
            host(trace_events.MARK, 0.0, 0.1, cat="user_annotation"),
            started("cuLaunchKernel", 1.0, 1),
            started("cuLaunchKernel", 2.0, 2),
            host(trace_events.CALL, 5.0, 10.0, cat="user_annotation"),
            started("cuLaunchKernelEx", 6.0, 3),
            started("cuLaunchKernel", 16.0, 4),
            ran("pkb_gate", 1.5, 98.5, 1),
            ran("pkb_seal", 100.5, 3.0, 2),
            ran(OWN, 104.0, 20.0, 3),
            ran("pkb_take", 125.0, 2.0, 4),
        ]
        found = trace_events.recording(trace, marks=[(0, 0)])
        on_device = [found.names[span.name].name for span in found.spans if span.kind is SpanKind.KERNEL]
        assert on_device == [OWN]
        assert (found.begin_ns, found.end_ns, found.opened_ns) == (5_000, 124_000, 100_000)
        assert [row.name for row in trace_events.rows(trace)] == [OWN]

    def test_a_copy_between_two_devices_names_both(self):
        def copy(name, **more):
            return {"ph": "X", "cat": "gpu_memcpy", "name": name, "ts": 2.0, "dur": 1.0, "tid": 7, "args": more}

        trace = [
            {"ph": "X", "cat": "user_annotation", "name": trace_events.MARK, "ts": 0.0, "dur": 0.1, "tid": 1},
            {"ph": "X", "cat": "user_annotation", "name": trace_events.CALL, "ts": 1.0, "dur": 5.0, "tid": 1},
            copy(PEER_COPY, fromDevice=1, inDevice=0, toDevice=3, bytes=64),
            copy("Memcpy DtoD (Device -> Device)", device=0, bytes=64),
        ]
        found = read(pack(trace_events.recording(trace, marks=[(2_000, 2_000)])))
        assert [(name.source, name.target) for name in found.names] == [(1, 3), (None, None)]

    def test_of_operators_that_call_each_other_the_outermost_stands(self):
        def operator(name, start, us):
            return {"ph": "X", "cat": "cpu_op", "name": name, "ts": start, "dur": us, "tid": 1}

        trace = [
            {"ph": "X", "cat": "user_annotation", "name": trace_events.MARK, "ts": 0.0, "dur": 0.1, "tid": 1},
            {"ph": "X", "cat": "user_annotation", "name": trace_events.CALL, "ts": 1.0, "dur": 50.0, "tid": 1},
            operator("aten::matmul", 2.0, 10.0),
            operator("aten::mm", 3.0, 8.0),
            operator("c10d::allreduce_", 20.0, 5.0),
            operator("aten::add", 30.0, 1.0),
        ]
        found = trace_events.recording(trace, marks=[(0, 0)])
        assert [found.names[span.name].name for span in found.spans] == [
            "aten::matmul",
            "c10d::allreduce_",
            "aten::add",
        ]

    def test_a_trace_without_our_marks_is_refused(self):
        with pytest.raises(ValueError, match="shows 0 of our 1 marks"):
            trace_events.recording([], marks=[(0, 1)])

    def test_a_recorded_call_leaves_rows_and_spans_in_one_file(self):
        file = recorded_call.create()
        recorder = profiler.Recorder(os.dup(file), device=CPU)
        recorder.around(lambda x: x @ x)(torch.ones(64, 64))
        recorder.finish()
        found = recorded_call.read(file).recording
        os.close(file)
        assert "aten::matmul" in {work.name for work in found.names}
        assert found.lanes == ("host",)
        assert found.begin_ns <= found.spans[0].start_ns <= found.end_ns


class TestSplit:
    def test_the_parts_of_a_rank_add_up_to_the_call(self):
        found = split(call([(Kind.KERNEL, GEMM, 0, 60), (Kind.KERNEL, NCCL, 40, 50)], [(Kind.KERNEL, GEMM, 20, 60)]))
        first, second = found.ranks
        assert (first.call_us, first.compute_us, first.both_us, first.wire_us, first.idle_us) == (90, 40, 20, 30, 0)
        assert (second.compute_us, second.idle_us) == (60, 30)
        assert first.overlap == pytest.approx(0.4)
        assert second.overlap is None

    @given(
        st.lists(
            st.tuples(
                st.sampled_from([Kind.KERNEL, Kind.COPY, Kind.WAIT]),
                st.sampled_from([GEMM, NCCL, OWN, PEER_COPY]),
                st.integers(0, 200),
                st.integers(1, 80),
            ),
            min_size=1,
            max_size=12,
        )
    )
    def test_whatever_runs_they_add_up(self, spans):
        found = split(call(spans), primitives=[Primitive.SM_LOAD_STORE])
        (rank,) = found.ranks
        parts = rank.compute_us + rank.wire_us + rank.both_us + rank.wait_us + rank.mixed_us + rank.idle_us
        assert parts == pytest.approx(rank.call_us)
        assert found.advice.endswith(".")

    def test_a_kernel_of_ones_own_may_reach_peers_only_where_something_shows_that_it_can(self):
        spans = [(Kind.KERNEL, OWN, 0, 50)]
        assert split(call(spans)).ranks[0].compute_us == 50
        assert split(call(spans), primitives=[Primitive.SM_LOAD_STORE]).ranks[0].mixed_us == 50
        assert split(call([(Kind.KERNEL, GEMM, 0, 50)]), primitives=[Primitive.NVLS]).ranks[0].compute_us == 50

    def test_a_rank_waits_in_a_collective_until_the_last_one_enters(self):
        found = split(
            call(
                [(Kind.KERNEL, GEMM, 0, 10), (Kind.KERNEL, NCCL, 10, 90)],
                [(Kind.KERNEL, GEMM, 0, 80), (Kind.KERNEL, NCCL, 80, 20)],
            )
        )
        first, second = found.ranks
        assert (first.wait_us, first.wire_us, second.wait_us, second.wire_us) == (70, 20, 0, 20)
        assert found.gaps_us[Gap.WAIT] == 35

    def test_who_waits_for_whom_is_a_sentence(self):
        late = [(Kind.KERNEL, GEMM, 0, 80), (Kind.KERNEL, NCCL, 80, 10)]
        found = split(call([(Kind.KERNEL, NCCL, 0, 90)], late))
        assert found.largest is Gap.WAIT
        assert "For 80 us of 90 us rank 0 waits in collectives until the last rank enters them" in found.advice
        assert "for rank 1: the ranks arrive at different times" in found.advice

    def test_of_collectives_that_ranks_have_in_different_numbers_nothing_is_said(self):
        twice = [(Kind.KERNEL, NCCL, 50, 10), (Kind.KERNEL, NCCL, 80, 10)]
        for others in ([twice], [twice[:1], [(Kind.KERNEL, GEMM, 0, 90)]]):
            found = split(call([(Kind.KERNEL, NCCL, 0, 90)], *others))
            assert {rank.wait_us for rank in found.ranks} == {0}

    @given(*[st.lists(st.tuples(st.integers(0, 60), st.integers(1, 9)), max_size=9) for _ in range(2)])
    def test_taking_time_away_leaves_exactly_the_rest(self, wanted, taken):
        kept, gone = (united((start, start + ns) for start, ns in pairs) for pairs in (wanted, taken))
        left = without(kept, gone)
        moments = [{at for start, end in times for at in range(start, end)} for times in (kept, gone, left)]
        assert moments[2] == moments[0] - moments[1]
        assert length(left) == len(moments[2])

    def test_a_wait_after_which_nothing_is_started_delays_nothing(self):
        spans = [
            (Kind.LAUNCH, "cudaLaunchKernel", 0, 5),
            (Kind.WAIT, SYNCHRONISE, 6, 90),
            (Kind.KERNEL, GEMM, 20, 10),
            (Kind.KERNEL, GEMM, 80, 10),
        ]
        assert split(call(spans)).ranks[0].host_waits == 0
        assert split(call([*spans, (Kind.LAUNCH, "cudaLaunchKernel", 70, 5)])).ranks[0].host_waits == 1

    def test_launches_before_the_gate_opened_do_not_count(self):
        found = split(call([(Kind.LAUNCH, "cudaLaunchKernel", 0, 30), (Kind.KERNEL, GEMM, 900, 50)]))
        assert found.ranks[0].call_us == 50

    @pytest.mark.parametrize(
        ("spans", "least", "gap", "words"),
        [
            (
                [
                    (Kind.KERNEL, GEMM, 0, 20),
                    (Kind.WAIT, SYNCHRONISE, 10, 20),
                    (Kind.LAUNCH, "cudaLaunchKernel", 80, 5),
                    (Kind.WAIT, SYNCHRONISE, 90, 40),
                    (Kind.KERNEL, GEMM, 100, 20),
                ],
                None,
                Gap.IDLE,
                "For 80 us of 120 us rank 0's GPU is idle: its host waits for the device once inside the call",
            ),
            (
                [(Kind.KERNEL, GEMM, start, 2) for start in range(0, 100, 10)],
                None,
                Gap.IDLE,
                "between 10 kernels and copies. Fewer and longer ones, or a CUDA graph, would close the gaps.",
            ),
            (
                [(Kind.KERNEL, GEMM, 0, 30), (Kind.KERNEL, NCCL, 30, 70)],
                LowerBound(arithmetic_us=25, memory_us=5, wire_us=20, wire_bytes=8 * 2**20, flops=1e9),
                Gap.WIRE,
                "mostly in ncclDevKernel_AllReduce_Sum_bf16_RING_LL; 8 MiB at the link's rate need 20 us",
            ),
            (
                [(Kind.KERNEL, GEMM, 0, 90), (Kind.KERNEL, NCCL, 90, 10)],
                LowerBound(arithmetic_us=10, memory_us=40, wire_us=9, wire_bytes=1, flops=1e9),
                Gap.WORK,
                "Rank 0 computes for 90 us of 100 us; the memory ceiling allows 40 us. cutlass::Kernel2",
            ),
        ],
    )
    def test_the_largest_gap_is_a_sentence(self, spans, least, gap, words):
        found = split(call(spans), least=least)
        assert found.largest is gap
        assert words in found.advice

    def test_an_idle_gpu_whose_work_is_queued_waits_for_a_signal(self):
        """As a program does that waits in a stream for another rank's flag, after a short wait of its host."""
        short_one = [
            (Kind.KERNEL, GEMM, 0, 100),
            (Kind.WAIT, SYNCHRONISE, 60, 45),
            (Kind.LAUNCH, "cudaLaunchKernel", 180, 20, 7),
            (Kind.LAUNCH, "cudaLaunchKernel", 205, 5, 8),
            (Kind.KERNEL, GEMM, 202, 98, 7),
            (Kind.KERNEL, OWN, 900, 100, 8),
        ]
        least = LowerBound(arithmetic_us=600, memory_us=5, wire_us=0, wire_bytes=0, flops=1e9)
        found = split(call([(Kind.KERNEL, GEMM, 0, 1000)], short_one), least=least)
        assert found.advice == (
            "For 702 us of 1 ms rank 1's GPU is idle. For 600 us of that its queued work waits for a signal, from "
            "another rank or a host. Rank 0's GPU is busy for 1 ms, its own for 298 us."
        )
        assert (found.largest, found.ranks[1].host_waits) == (Gap.IDLE, 1)

    @pytest.mark.parametrize(
        ("launch", "cause"),
        [(880, Idle.LAUNCH), (400, Idle.SIGNAL), (5, Idle.SIGNAL), (890, Idle.LAUNCH)],
        ids=["late", "halfway", "early", "at the last moment"],
    )
    def test_the_launch_of_what_ends_an_idle_time_says_why_it_lasted(self, launch, cause):
        spans = [
            (Kind.KERNEL, GEMM, 100, 10),
            (Kind.LAUNCH, "cudaLaunchKernel", launch, 5, 3),
            (Kind.KERNEL, GEMM, 900, 100, 3),
        ]
        rank = call(spans).ranks[0]
        causes = idle_by_cause(rank, (0, 1_200_000))
        assert max((Idle.HOST, Idle.LAUNCH, Idle.SIGNAL), key=causes.__getitem__) is cause
        assert causes[Idle.EDGE] == 300_000
        assert sum(causes.values()) == 1_200_000 - 110_000

    def test_a_gpu_that_did_nothing_is_idle_at_the_edge(self):
        assert idle_by_cause(call([(Kind.WAIT, SYNCHRONISE, 0, 9)]).ranks[0], (0, 500))[Idle.EDGE] == 500

    def test_time_in_kernels_that_reach_peers_is_compared_with_the_whole_floor(self):
        least = LowerBound(arithmetic_us=10, memory_us=40, wire_us=30, wire_bytes=2**20, flops=1e9)
        found = split(call([(Kind.KERNEL, OWN, 0, 90)]), primitives=[Primitive.SM_LOAD_STORE], least=least)
        assert (found.largest, found.gaps_us[Gap.MIXED]) == (Gap.MIXED, 50)
        assert "the profiler does not show" in found.advice

    def test_what_the_links_carry_shows_that_kernels_move_data(self):
        own = call([(Kind.KERNEL, OWN, 0, 90)], [(Kind.KERNEL, OWN, 0, 90)])
        assert moved_by_kernels(own, (2**24, 2**24))
        assert not moved_by_kernels(own, (2**10, 2**10))
        assert not moved_by_kernels(own, ())
        copies = call([(Kind.COPY, PEER_COPY, 0, 100)], [(Kind.COPY, PEER_COPY, 0, 100)])
        assert not moved_by_kernels(copies, (10_000_000, 10_100_000))
        for library in (NCCL, "void c10d::symmetric_memory::one_shot_all_reduce_kernel<c10::BFloat16>(...)"):
            assert not moved_by_kernels(call([(Kind.KERNEL, library, 0, 90), (Kind.KERNEL, OWN, 90, 9)]), (2**24,))
        barrier = "c10d::symmetric_memory::barrier_kernel(unsigned int**, int)"
        assert moved_by_kernels(call([(Kind.KERNEL, barrier, 0, 9), (Kind.KERNEL, OWN, 9, 90)]), (2**24,))

    def test_far_more_bytes_than_the_least_are_named(self):
        least = LowerBound(arithmetic_us=10, memory_us=40, wire_us=30, wire_bytes=2**20, flops=1e9)
        own = call([(Kind.KERNEL, OWN, 0, 90)])
        known = {Primitive.SM_LOAD_STORE}
        told = split(own, primitives=known, least=least, carried_bytes=9 * 2**20).advice
        assert told.endswith("One rank sends 9 MiB over its links; 1 MiB would do.")
        assert "links" not in split(own, primitives=known, least=least, carried_bytes=2**20).advice
        nothing = dataclasses.replace(least, wire_us=0, wire_bytes=0)
        told = split(own, primitives=known, least=nothing, carried_bytes=9 * 2**20).advice
        assert told.endswith("One rank sends 9 MiB over its links; the problem needs none.")
        assert "links" not in split(own, primitives=known, least=nothing, carried_bytes=2**10).advice

    def test_another_kernel_that_is_longest_on_another_rank_is_named(self):
        own = call([(Kind.KERNEL, "wait_signal", 0, 90)], [(Kind.KERNEL, OWN, 10, 80)])
        told = split(own, primitives={Primitive.SM_LOAD_STORE}).advice
        assert "wait_signal takes 100% of it, on rank 1 push_tiles takes most." in told

    def test_seconds_are_seconds(self):
        told = split(call([(Kind.KERNEL, GEMM, 0, 1_500_000)]), primitives=()).advice
        assert told.startswith("Rank 0 computes for 1.5 s of 1.5 s.")

    def test_what_only_the_recorded_call_has_is_in_no_gap(self):
        # Rank 1 is late by 600 us, which rank 0 spends in a kernel that waits; usual calls take 50 us.
        own = call([(Kind.KERNEL, OWN, 0, 640)], [(Kind.KERNEL, OWN, 600, 40)])
        found = split(own, primitives={Primitive.SM_LOAD_STORE}, usual_us=50.0)
        assert found.surplus_us == 590
        assert found.gaps_us == {Gap.IDLE: 0, Gap.WAIT: 0, Gap.WIRE: 0, Gap.WORK: 0, Gap.MIXED: 50}
        assert "Rank 1 takes 40 us for its own, so the rest may be waiting for it" in found.advice

    def test_a_usual_call_that_takes_as_long_takes_nothing_away(self):
        pauses = call([(Kind.KERNEL, GEMM, 0, 10), (Kind.KERNEL, GEMM, 90, 10)])
        assert split(pauses, usual_us=120.0).gaps_us == split(pauses).gaps_us
        assert split(pauses, usual_us=60.0).gaps_us[Gap.IDLE] == 40

    def test_without_spans_there_is_none(self):
        assert split(call([])) is None

    def test_names_are_shortened_to_what_distinguishes_them(self):
        assert short(GEMM) == "cutlass::Kernel2"
        assert short(OWN) == "push_tiles"
        unnamed = "void at::native::(anonymous namespace)::CatArrayBatchedCopy<at::native::Opaque<2u>, 4>(Opaque*, int)"
        assert short(unnamed) == "at::native::CatArrayBatchedCopy"
        assert len(short("x" * 300)) <= 60


def test_a_judgement_has_the_timelines_of_submission_and_reference(judge):
    report = judge.evaluate(request_for("correct", mode=Mode.RANKED))
    assert report.verdict is Verdict.PASSED, report.message
    assert report.timeline is not None
    assert report.timeline.reference is not None
    for called in (report.timeline.submission, report.timeline.reference):
        assert [rank.rank for rank in called.ranks] == [0, 1]
        assert "gloo:all_reduce" in {work.name for work in called.names}
        for rank in called.ranks:
            assert rank.lanes[0] == "host"
            assert rank.spans
            assert all(span.start_ns >= 0 and span.lane < len(rank.lanes) for span in rank.spans)
        without_a_launch = msgspec.json.decode(b'["gloo:all_reduce"]', type=type(called.names[0]))
        assert without_a_launch.grid == without_a_launch.block == (0, 0, 0)
        found = split(called)
        assert sum(rank.wire_us for rank in found.ranks) > 0
    assert EvaluationReport.from_json(report.to_json()) == report


def test_mode_profile_records_both_programs_and_times_neither(judge):
    asked = msgspec.structs.replace(request_for("correct", mode=Mode.PROFILE), sizes=("base",))
    report = judge.evaluate(asked)
    assert report.verdict is Verdict.PASSED, report.message
    assert report.timing is None
    assert [size.size for size in report.sizes] == [report.timeline.size] == ["base"]
    assert report.timeline.reference is not None
    assert not any(size.blocks for size in report.record.sizes)
    assert EvaluationReport.from_json(report.to_json()) == report


def test_mode_profile_still_finds_what_is_wrong(judge):
    report = judge.evaluate(request_for("wrong_on_rank_one", mode=Mode.PROFILE))
    assert report.verdict is Verdict.WRONG_RESULT


def test_the_reference_is_recorded_once_per_problem_and_size(judge):
    first, second = (judge.evaluate(request_for("correct", mode=Mode.RANKED)) for _ in range(2))
    assert first.timeline.reference == second.timeline.reference
    assert first.timeline.submission != second.timeline.submission
