"""Records of a recorded call and bytes on the links: reading what strangers wrote, what follows, and the CPU path."""

import os
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evaluator.arena import profiler, trace_events
from evaluator.arena.recording import FILE_BYTES, MOST_ROWS, Kind, Row, packed
from evaluator.contract import Backend, CallKind, EvaluationReport, Mode, Primitive, Verdict, WorkKind, WorkTotal
from evaluator.host.machine.slot_watch import SlotWatch
from evaluator.host.measure import recorded_call
from evaluator.judging import link_traffic, recorded_work
from evaluator.presentation import report_text
from tests.evaluator.judging_help import SUBMISSIONS, request_for, request_for_text

NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40)
ROWS = st.builds(
    Row,
    kind=st.sampled_from([Kind.KERNEL, Kind.COPY, Kind.FILL, Kind.OPERATOR]),
    name=NAMES,
    times=st.integers(0, 2**32 - 1),
    nanoseconds=st.integers(0, 2**63 - 1),
    bytes=st.integers(0, 2**63 - 1),
)
REST = b',"dropped":0,"recording":null,"note":""}'
CPU = torch.device("cpu")
BARRIER = "ncclDevKernel_AllReduce_Sum_u8_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def recorded(function, file: int):
    """`function`, every call of which a recorder writes to `file`."""

    def call(*arguments):
        recorder = profiler.Recorder(os.dup(file), device=CPU)
        value = recorder.around(function)(*arguments)
        recorder.finish()
        return value

    return call


def work(name: str, count: int = 1, kind: WorkKind = WorkKind.KERNEL, us: float = 1.0) -> WorkTotal:
    return WorkTotal(kind=kind, name=name, count=count, us=us)


def read_back(content: bytes) -> recorded_call.RankFile:
    """What the host reads where a rank wrote `content`."""
    file = recorded_call.create()
    try:
        os.pwrite(file, content, 0)
        return recorded_call.read(file)
    finally:
        os.close(file)


class TestFile:
    @given(st.lists(ROWS, max_size=20), NAMES)
    def test_what_a_rank_writes_is_what_the_host_reads(self, rows, note):
        found = read_back(packed(rows, note=note))
        read = [(row.kind, row.name, row.times, row.nanoseconds, row.bytes) for row in found.rows]
        assert sorted(read) == sorted(tuple(row) for row in rows)
        assert (found.dropped, found.note) == (0, note)

    def test_the_longest_are_kept_where_not_all_fit(self):
        rows = [Row(Kind.KERNEL, name="\U0001f600" * 999, times=1, nanoseconds=i) for i in range(MOST_ROWS + 7)]
        content = packed(rows)
        found = read_back(content)
        assert len(content) <= FILE_BYTES // 2
        assert (len(found.rows), found.dropped) == (MOST_ROWS, 7)
        assert min(row.nanoseconds for row in found.rows) == 7

    @given(st.binary(max_size=600))
    def test_anything_else_is_refused(self, content):
        found = read_back(content)
        assert (found.rows, found.recording) == ((), None)
        assert found.note.startswith("a rank left no records: ")

    @pytest.mark.parametrize(
        "content",
        [
            b"[" * 2**20,
            b'{"rows":[["kernel","x",1,' + b"9" * 1_000_000,
            b'{"rows":[["kernel","x",-1,1]]' + REST,
            b'{"rows":[["kernel","x",1,1e300]]' + REST,
            b'{"rows":[["launch","x",1,1]]' + REST,
            b'{"rows":[' + b",".join([b'["kernel","x",1,1]'] * (MOST_ROWS + 1)) + b"]" + REST,
            b'{"rows":[],"more":1' + REST,
            b'{"rows":[],"dropped":0,"recording":null,"note":"' + b"x" * 201 + b'"}',
            b'{"rows":[],"dropped":9223372036854775807,"recording":null,"note":""}',
            b'{"rows":[],"dropped":0,"recording":[[],[],[],0,0,0,9223372036854775807],"note":""}',
        ],
        ids=[
            "depth",
            "a number without end",
            "less than nothing",
            "no whole number",
            "kind",
            "rows",
            "fields",
            "note",
            "dropped rows",
            "dropped spans",
        ],
    )
    def test_json_that_no_rank_writes_is_refused(self, content):
        assert read_back(content[: 2**20]).note.startswith("a rank left no records: ")
        assert read_back(b'{"rows":[["kernel","x",1,1]]' + REST).note == ""

    @given(st.lists(ROWS, min_size=1, max_size=4), st.data())
    def test_a_file_that_was_changed_is_read_or_refused(self, rows, data):
        content = bytearray(packed(rows))
        index = data.draw(st.integers(0, len(content) - 1))
        content[index] = data.draw(st.integers(0, 255))
        found = read_back(bytes(content[: data.draw(st.integers(index, len(content)))]))
        assert len(found.rows) <= MOST_ROWS

    def test_what_ranks_wrote_becomes_one_table_without_control_characters(self):
        one = Row(kind=Kind.KERNEL, name="gather\x1b[2J", times=2, nanoseconds=3000)
        two = Row(kind=Kind.KERNEL, name="gather\x1b[2J", times=4, nanoseconds=1000)
        files = [recorded_call.create() for _ in range(3)]
        try:
            os.pwrite(files[0], packed([one]), 0)
            os.pwrite(files[1], packed([two], note="cut"), 0)
            table = recorded_call.read_rows(files, size="base")
        finally:
            for file in files:
                os.close(file)
        (only,) = table.works
        assert "\x1b" not in only.name
        assert (only.count, only.us, only.ranks) == (4, 3.0, 2)
        assert table.note.startswith("cut; a rank left no records")


class TestNames:
    @pytest.mark.parametrize(
        ("name", "kind", "primitive"),
        [
            (BARRIER, WorkKind.KERNEL, Primitive.NCCL),
            ("ncclSymkDevKernel_AllGather_LL(ncclSymkDevWorkArgs4K)", WorkKind.KERNEL, Primitive.NCCL),
            ("void barrier_on_stream_kernel_threadgroup<nvshmemi_team>(...)", WorkKind.KERNEL, Primitive.NVSHMEM),
            ("multimem_all_reduce_kernel<c10::BFloat16, 16>", WorkKind.KERNEL, Primitive.NVLS),
            (
                "void c10d::symmetric_memory::one_shot_all_reduce_kernel<c10::BFloat16>(...)",
                WorkKind.KERNEL,
                Primitive.SM_LOAD_STORE,
            ),
            ("Memcpy PtoP (Device -> Device)", WorkKind.COPY, Primitive.COPY_ENGINE),
        ],
    )
    def test_a_name_shows_its_primitive(self, name, kind, primitive):
        (seen,) = recorded_work.detections([work(name, 3, kind)])
        assert seen.primitive is primitive
        assert seen.detail.startswith(name[:80])
        assert seen.detail.endswith("3 of this kind in the recorded call")

    @pytest.mark.parametrize(
        "name",
        [
            "gather(uint4 const*)",
            "Memcpy DtoD (Device -> Device)",
            "sm90_xmma_gemm_bf16",
            "c10d::symmetric_memory::barrier_kernel(unsigned int**, int, int, int, unsigned long)",
        ],
    )
    def test_other_names_show_none(self, name):
        kind = WorkKind.COPY if name.startswith("Memcpy") else WorkKind.KERNEL
        assert recorded_work.detections([work(name, kind=kind)]) == ()

    def test_a_collective_that_went_past_torch_is_found(self):
        finding = recorded_work.hidden_collectives([work(BARRIER, 2)], backend=Backend.CUDA)
        assert finding is not None
        assert finding.verdict is Verdict.FORBIDDEN
        assert "2 kernels" in finding.message
        assert "started 0" in finding.message

    def test_a_barrier_that_torch_was_asked_for_is_none(self):
        asked = work("c10d::barrier", 2, WorkKind.OPERATOR)
        assert recorded_work.hidden_collectives([work(BARRIER, 2), asked], backend=Backend.CUDA) is None
        assert recorded_work.hidden_collectives([work(BARRIER, 3), asked], backend=Backend.CUDA) is not None

    def test_the_open_class_may_use_them(self):
        assert recorded_work.hidden_collectives([work(BARRIER, 2)], backend=Backend.PYTORCH) is None


class TestWire:
    @given(
        calls=st.integers(1, 50),
        sent=st.lists(st.integers(0, 2**40), min_size=1, max_size=8),
        least=st.floats(0, 2**40),
    )
    def test_only_far_too_few_bytes_are_flagged(self, calls, sent, least):
        found = link_traffic.weigh(calls=calls, sent=sent, received=[0] * len(sent), least_bytes=least)
        is_far_too_few = (
            max(sent) < link_traffic.LEAST_SHARE * least * calls and least * calls >= link_traffic.LEAST_BYTES
        )
        assert bool(found.flag) == is_far_too_few

    def test_receiving_counts_as_moving(self):
        assert not link_traffic.weigh(calls=1, sent=[0, 0], received=[0, 2**24], least_bytes=2**24).flag

    def test_bytes_are_per_call(self):
        found = link_traffic.weigh(calls=3, sent=[30, 3], received=[3, 30], least_bytes=5)
        assert (found.sent_bytes, found.received_bytes) == ((10, 1), (1, 10))

    def test_cpu_ranks_offer_no_counters(self):
        called = []
        found = SlotWatch(()).count_links(least_bytes=7, call=called.append)
        assert found.note == "not offered: CPU ranks have no NVLink"
        assert not called

    @pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this machine has GPUs")
    def test_a_machine_without_a_driver_says_so(self):
        pytest.importorskip("pynvml")
        assert SlotWatch((0, 1)).count_links(least_bytes=7, call=print).note.startswith("not offered: the driver")


class TestRecorder:
    def test_a_trace_of_a_gpu_becomes_kernels_copies_and_operators(self):
        peer = {"cat": "gpu_memcpy", "name": "Memcpy PtoP (Device -> Device)", "dur": 2.25, "args": {"bytes": 7680}}
        trace = [
            {"ph": "M", "name": "process_name"},
            {"cat": "cpu_op", "name": "c10d::barrier", "dur": 19.0, "args": {}},
            {"cat": "cpu_op", "name": "aten::copy_", "dur": 3.0},
            {"cat": "cuda_runtime", "name": "cudaMemcpyAsync", "dur": 4.0},
            {"cat": "gpu_user_annotation", "name": "nccl:all_reduce", "dur": 60.0},
            {"cat": "kernel", "name": "c10d::symmetric_memory::barrier_kernel", "dur": 86.75, "args": {"device": 0}},
            peer,
            peer,
        ]
        assert trace_events.rows(trace) == [
            Row(kind=Kind.OPERATOR, name="c10d::barrier", times=1, nanoseconds=19000),
            Row(kind=Kind.KERNEL, name="c10d::symmetric_memory::barrier_kernel", times=1, nanoseconds=86750),
            Row(kind=Kind.COPY, name="Memcpy PtoP (Device -> Device)", times=2, nanoseconds=4500, bytes=15360),
        ]

    def test_the_operators_of_a_call_are_recorded_and_its_value_returned(self):
        file = recorded_call.create()
        assert recorded(lambda x: x + 1, file)(torch.ones(2)).tolist() == [2.0, 2.0]
        found = recorded_call.read(file)
        assert (found.rows, found.dropped, found.note) == ((), 0, "")
        os.close(file)

    def test_a_call_that_takes_the_profiler_for_itself_goes_on(self):
        file, other = recorded_call.create(), recorded_call.create()
        inner = recorded(lambda x: x + 1, other)
        assert recorded(inner, file)(torch.ones(2)).tolist() == [2.0, 2.0]
        assert recorded_call.read(file).note.startswith("the submission used the profiler itself")
        os.close(file)
        os.close(other)


def test_a_judgement_says_which_collectives_ran_and_that_cpu_ranks_have_no_links(judge):
    report = judge.evaluate(request_for("correct"))
    assert report.verdict is Verdict.PASSED, report.message
    assert report.recorded_work is not None
    assert report.recorded_work.note == ""
    assert "gloo:all_reduce" in {each.name for each in report.recorded_work.works}
    assert report.ranks[0].log == ""
    assert {each.ranks for each in report.recorded_work.works} == {2}
    (size,) = report.record.sizes
    assert size.calls[-1].kind is CallKind.RECORDED
    assert size.calls[-1].is_checked
    assert size.links.note.startswith("not offered")
    assert size.links.least_bytes > 0
    assert EvaluationReport.from_json(report.to_json()) == report
    text = report_text(report)
    assert "links at tiny: not offered: CPU ranks have no NVLink" in text
    assert "1 x operator gloo:all_reduce" in text


def test_a_submission_that_profiles_itself_is_not_blamed(judge):
    text = (
        "import torch\nimport torch.distributed as dist\n\n\ndef solution(tensor):\n"
        "    with torch.autograd.profiler.profile():\n        out = tensor.clone()\n        dist.all_reduce(out)\n"
        "    return out\n"
    )
    report = judge.evaluate(request_for_text(text))
    assert report.verdict is Verdict.PASSED, report.message
    assert report.recorded_work is not None
    assert "used the profiler itself" in report.recorded_work.note


def test_a_wrong_answer_in_the_recorded_call_counts(judge):
    text = (
        "import torch\nimport torch.distributed as dist\n\n\ndef solution(tensor):\n    out = tensor.clone()\n"
        "    if not torch.autograd._profiler_enabled():\n        dist.all_reduce(out)\n    return out\n"
    )
    report = judge.evaluate(request_for_text(text, mode=Mode.CHECK))
    assert report.verdict is Verdict.NONDETERMINISTIC, report.message  # repeated without the profiler it is right
    assert any("the profiler recorded it" in finding.message for finding in report.findings)


def test_a_submission_that_dies_in_the_recorded_call_is_not_blamed_and_leaves_no_record(judge):
    text = (
        "import os\nimport torch\nimport torch.distributed as dist\n\n\ndef solution(tensor):\n"
        "    if torch.autograd._profiler_enabled():\n        os.abort()\n    out = tensor.clone()\n"
        "    dist.all_reduce(out)\n    return out\n"
    )
    report = judge.evaluate(request_for_text(text))
    assert report.verdict is Verdict.PASSED, report.message
    assert "did not finish the recorded call" in report.recorded_work.note
    assert report.recorded_work.works == ()
    assert judge.evaluate(request_for("correct")).verdict is Verdict.PASSED


def test_a_forged_record_in_the_recorded_call_is_still_tampering(judge):
    text = (SUBMISSIONS / "forges_a_record.py").read_text()
    assert "def solution(tensor):\n" in text
    late = text.replace(
        "def solution(tensor):\n",
        "def solution(tensor):\n    import torch\n    if not torch.autograd._profiler_enabled():\n"
        "        out = tensor.clone()\n        torch.distributed.all_reduce(out)\n        return out\n",
    )
    report = judge.evaluate(request_for_text(late))
    assert report.verdict is Verdict.TAMPERED, report.message
