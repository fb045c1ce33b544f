"""The strict parsers: whatever bytes a rank sends, the host gets one allowed record or a clear refusal."""

import json
import os
import struct
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.arena.protocol import OUTPUT_HEADER_BYTES, Command, CommandKind, Failure, Report, ReportKind
from evaluator.host.clock.call_clock import ClockPage
from evaluator.host.hangs.stacks import main_thread
from evaluator.host.measure import outputs, recorded_call
from evaluator.host.process.logs import Keeper, clean
from evaluator.host.ranks.channel import ChannelViolation, Expectation

FILE_BYTES = OUTPUT_HEADER_BYTES + 4096


def expecting(kind: CommandKind, call: int) -> Expectation:
    expectation = Expectation()
    expectation.accept(Report(kind=ReportKind.READY).pack())
    expectation.ask(Command(kind=kind, call=call))
    return expectation


@given(st.binary(max_size=200))
def test_any_packet_is_an_allowed_record_or_a_violation(packet: bytes) -> None:
    expectation = expecting(CommandKind.GO, 7)
    try:
        report = expectation.accept(packet)
    except ChannelViolation:
        return
    assert report.kind in (ReportKind.DONE, ReportKind.FAILED)
    assert report.call == 7


@given(
    kind=st.sampled_from(list(ReportKind)),
    call=st.integers(0, 2**32 - 1),
    claimed=st.integers(0, 2**62),
    detail=st.integers(-(2**63), 2**63 - 1),
)
def test_only_the_answer_to_the_open_command_is_accepted(
    kind: ReportKind, call: int, claimed: int, detail: int
) -> None:
    report = Report(kind=kind, call=call, claimed_ns=claimed, detail=detail)
    expectation = expecting(CommandKind.LOAD, 3)
    if kind is ReportKind.LOADED and call == 3:
        assert expectation.accept(report.pack()) == report
        with pytest.raises(ChannelViolation):
            expectation.accept(report.pack())  # repeated
    else:
        with pytest.raises(ChannelViolation):
            expectation.accept(report.pack())


MAY_FAIL = {
    CommandKind.IMPORT: {Failure.IMPORT, Failure.ENTRY},
    CommandKind.GO: {Failure.RAISED, Failure.OUT_OF_MEMORY},
    CommandKind.LOOP: {Failure.RAISED, Failure.OUT_OF_MEMORY},
    CommandKind.BARE: {Failure.RAISED, Failure.OUT_OF_MEMORY},  # nobody but us is there, and it is our failure
}


@given(kind=st.sampled_from(list(CommandKind)), detail=st.one_of(st.integers(-3, 9), st.integers(-(2**63), 2**63 - 1)))
def test_only_failures_of_the_submission_are_accepted_once_it_may_be_there(kind: CommandKind, detail: int) -> None:
    expectation, packet = expecting(kind, 3), Report(kind=ReportKind.FAILED, call=3, detail=detail).pack()
    if detail in MAY_FAIL.get(kind, ()):
        assert expectation.accept(packet).detail == detail
    else:
        with pytest.raises(ChannelViolation, match="a failure"):
            expectation.accept(packet)


@given(st.sampled_from(list(ReportKind)))
def test_a_rank_that_was_asked_nothing_may_say_nothing(kind: ReportKind) -> None:
    expectation = Expectation()
    expectation.accept(Report(kind=ReportKind.READY).pack())
    with pytest.raises(ChannelViolation):
        expectation.accept(Report(kind=kind).pack())


def test_a_time_below_zero_is_refused() -> None:
    packet = Report.LAYOUT.pack(Report.MAGIC, ReportKind.DONE, 7, -1, -1, 0, 0)
    with pytest.raises(ChannelViolation, match="malformed"):
        expecting(CommandKind.GO, 7).accept(packet)


def parse(text: bytes) -> list[dict[str, object]]:
    return outputs.parse_header(struct.pack("<Q", len(text)) + text, file_bytes=FILE_BYTES)


@given(st.binary(max_size=400))
def test_any_header_bytes_parse_or_are_refused(head: bytes) -> None:
    try:
        entries = outputs.parse_header(head, file_bytes=FILE_BYTES)
    except outputs.HeaderError:
        return
    assert all(entry.get("start", -1) < FILE_BYTES for entry in entries)


EXTENT = st.integers(-5, 2**70)


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "dtype": st.sampled_from(["bfloat16", "float32", "int64", "qint8", "\u0000"]),
                "shape": st.lists(EXTENT, max_size=20),
                "device": st.text(max_size=5),
                "start": st.integers(-5, FILE_BYTES + 5),
            }
        ),
        max_size=4,
    )
)
def test_accepted_tensors_lie_inside_the_file(entries: list[dict[str, object]]) -> None:
    try:
        accepted = parse(json.dumps(entries).encode())
    except outputs.HeaderError:
        return
    for entry in (each for each in accepted if "other" not in each):
        start, shape = entry["start"], entry["shape"]
        assert isinstance(start, int)
        assert isinstance(shape, list)
        elements = 1
        for extent in shape:
            elements *= extent
        if start >= 0:
            assert start >= OUTPUT_HEADER_BYTES
            assert start + elements * {"bfloat16": 2, "float32": 4, "int64": 8}[str(entry["dtype"])] <= FILE_BYTES


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[",
        b'{"dtype": "float32"}',
        b'[{"dtype": "float32", "shape": [-1], "device": "cpu", "start": 65536}]',
        b'[{"dtype": "float32", "shape": [1099511627776], "device": "cpu", "start": 65536}]',
        b'[{"dtype": "float32", "shape": [9223372036854775808], "device": "meta", "start": -1}]',
        b'[{"dtype": "float32", "shape": [' + b"1," * 64 + b'1], "device": "cpu", "start": 65536}]',
        b'[{"dtype": "float32", "shape": [2], "device": "cpu", "start": 0}]',
        b'[{"dtype": "float32", "shape": [2], "device": "cpu", "start": 65536, "verdict": "PASSED"}]',
        b"[" + b'{"other": "x"},' * 300 + b'{"other": "x"}]',
    ],
)
def test_wrong_headers_are_refused(text: bytes) -> None:
    with pytest.raises(outputs.HeaderError):
        parse(text)


@pytest.mark.parametrize("shape", [[2**50], [1] * 64])
def test_a_tensor_that_no_file_can_hold_is_described_and_no_tampering(shape: list[int]) -> None:
    entry = {"dtype": "float32", "shape": shape, "device": "meta", "start": -1}
    ((said,),) = [each.values() for each in parse(json.dumps([entry]).encode())]
    assert f"{len(shape)} dimensions" in said


@pytest.mark.parametrize(
    "make", [lambda: outputs.create(1 << 17), lambda: ClockPage().descriptor, recorded_call.create]
)
def test_nobody_can_resize_a_file_that_the_host_has_mapped(make: Callable[[], int]) -> None:
    descriptor = make()
    try:
        for size in (0, 1, 1 << 30):
            with pytest.raises(PermissionError):
                os.ftruncate(descriptor, size)
    finally:
        os.close(descriptor)


def test_a_taken_copy_keeps_its_contents() -> None:
    import os

    original = outputs.create(1000)
    os.pwrite(original, b"right", 0)
    copy = outputs.take(original)
    os.pwrite(original, b"wrong", 0)
    assert os.pread(copy, 5, 0) == b"right"
    assert outputs.digest(copy) != outputs.digest(original)
    with pytest.raises(OSError, match="not permitted"):
        os.ftruncate(original, 10)
    os.close(original)
    os.close(copy)


@given(st.lists(st.binary(max_size=300), max_size=20))
def test_kept_output_is_bounded_and_has_head_and_tail(chunks: list[bytes]) -> None:
    keeper = Keeper(100)
    for chunk in chunks:
        keeper.add(chunk)
    whole = b"".join(chunks)
    assert len(keeper.text()) <= 100 + 60
    if len(whole) <= 100:
        assert keeper.text() == clean(whole.decode("utf-8", "replace"))


@given(st.text(max_size=200))
def test_any_stack_dump_is_read_without_an_error(dump: str) -> None:
    assert main_thread(dump) == () or "shim.py" in dump
