"""Whatever comes out of a sandbox or a builder: the host takes what may come, refuses the rest, and never falls over.

The tests of `make test` try some dozens of cases each; the slow profile tries thousands (make gate).
"""

import json
import os
import random
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.arena import protocol
from evaluator.arena.protocol import OUTPUT_HEADER_BYTES, Command, CommandKind, Failure, Report, ReportKind
from evaluator.contract import ContractError, EvaluationReport, Finding, Mode, RankState, Verdict
from evaluator.host.building import builder_process
from evaluator.host.building.build_record import MAX_FINDINGS, Origin, find_errors, record_of
from evaluator.host.building.builder_process import BuildLimits
from evaluator.host.hangs.stacks import native
from evaluator.host.measure import outputs
from evaluator.host.ranks.channel import Channel, ChannelViolation
from evaluator.host.ranks.worker import Worker
from evaluator.node.slots import failure_report
from tests.evaluator.judging_help import request_for

ANSWERS = {
    CommandKind.IMPORT: ReportKind.IMPORTED,
    CommandKind.LOAD: ReportKind.LOADED,
    CommandKind.GO: ReportKind.DONE,
    CommandKind.STORE: ReportKind.STORED,
    CommandKind.BARE: ReportKind.DONE,
    CommandKind.LOOP: ReportKind.LOOPED,
    CommandKind.RECORD: ReportKind.RECORDING,
}


FAILURES = {
    ReportKind.IMPORTED: (Failure.IMPORT, Failure.ENTRY),
    ReportKind.DONE: (Failure.RAISED, Failure.OUT_OF_MEMORY),
    ReportKind.LOOPED: (Failure.RAISED, Failure.OUT_OF_MEMORY),
}


# ---- a rank's channel -------------------------------------------------------------------------------------------


def packets(due: ReportKind, call: int) -> st.SearchStrategy[bytes]:
    """What a rank may send while `due` for `call` is open: right, of another kind or call, cut, longer, repeated."""
    right = Report(kind=due, call=call, claimed_ns=5).pack()
    others = st.builds(
        lambda kind, number, detail: Report(kind=kind, call=number, detail=detail).pack(),
        st.sampled_from(list(ReportKind)),
        st.sampled_from([0, call - 1, call, call + 1, 2**32 - 1]),
        st.sampled_from([-1, *Failure, 6, 2**63 - 1]),
    )
    cut = st.integers(1, len(right) - 1).map(lambda end: right[:end])
    flipped = st.tuples(st.integers(0, len(right) - 1), st.integers(1, 255)).map(
        lambda at: right[: at[0]] + bytes([right[at[0]] ^ at[1]]) + right[at[0] + 1 :]
    )
    longer = st.binary(min_size=1, max_size=9000).map(lambda more: right + more)
    return st.one_of(st.just(right), others, cut, flipped, longer, st.binary(min_size=1, max_size=300))


def may_come(packet: bytes, due: ReportKind, call: int) -> bool:
    """Whether the shim could have sent this while `due` for `call` was open."""
    if len(packet) != Report.LAYOUT.size:
        return False
    magic, kind, number, claimed, detail, *_ = Report.LAYOUT.unpack(packet)
    is_kind = kind == due or (kind == ReportKind.FAILED and detail in FAILURES.get(due, ()))
    return magic == Report.MAGIC and is_kind and number == call and claimed >= 0


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def misheard(data: st.DataObject, commands: list[CommandKind]) -> str | None:
    """One conversation over a real socket, the rank's side saying anything, with descriptors where it likes.

    What the host accepted wrongly, in words; None where it accepted only what the shim may send.
    """
    host_end, rank_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    channel = Channel(host_end)
    opened = open_descriptors()
    with rank_end, host_end:
        rank_end.send(Report(kind=ReportKind.READY).pack())
        channel.expectation.accept(channel.receive()[0])
        for number, kind in enumerate(commands, start=1):
            channel.send(Command(kind=kind, call=number))
            rank_end.recv(64)
            packet = data.draw(packets(ANSWERS[kind], number))
            socket.send_fds(rank_end, [packet], [0] if data.draw(st.booleans()) else [])
            heard, _sender = channel.receive()
            try:
                report = channel.expectation.accept(heard)
            except ChannelViolation:
                return f"{packet!r} was refused" if may_come(packet, ANSWERS[kind], number) else None
            if not may_come(packet, ANSWERS[kind], number) or report.call != number:
                return f"{packet!r} was taken for the answer to call {number}"
            if open_descriptors() != opened:
                return "a descriptor stayed open"
            rank_end.send(packet)
            with suppress(ChannelViolation):
                channel.expectation.accept(channel.receive()[0])
                return f"{packet!r} was taken a second time, when nothing was open"
    return None


COMMANDS = st.lists(st.sampled_from(list(CommandKind)), min_size=1, max_size=4)


@settings(max_examples=60, deadline=None)
@given(st.data(), COMMANDS)
def test_a_channel_takes_what_our_shim_says_and_nothing_else(data: st.DataObject, commands: list[CommandKind]) -> None:
    assert misheard(data, commands) is None


@pytest.mark.slow
@settings(max_examples=5000, deadline=None)
@given(st.data(), COMMANDS)
def test_a_channel_thousands_of_times(data: st.DataObject, commands: list[CommandKind]) -> None:
    assert misheard(data, commands) is None


@settings(max_examples=60, deadline=None)
@given(
    head=st.binary(max_size=64), text=st.binary(max_size=300), stack=st.binary(max_size=300), is_answered=st.booleans()
)
def test_any_status_page_gives_a_location_in_words(head: bytes, text: bytes, stack: bytes, is_answered: bool) -> None:  # noqa: FBT001
    host_end, rank_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    status_page = os.memfd_create("status_page")
    try:
        os.ftruncate(status_page, protocol.STATUS_BYTES)
        os.pwrite(status_page, head, 0)
        os.pwrite(status_page, text, protocol.STATUS_TEXT_START)
        os.pwrite(status_page, stack, protocol.STATUS_STACK_START)
        rank = Worker(number=0, channel=Channel(host_end), status_page=status_page)
        _standing, location = rank.location(is_answered=is_answered, source="/source", ticks_before=0)
        assert location
        assert "\0" not in location + rank.text + rank.stack
    finally:
        os.close(status_page)
        host_end.close()
        rank_end.close()


# ---- outputs ----------------------------------------------------------------------------------------------------

FILE_BYTES = OUTPUT_HEADER_BYTES + 4096
ENTRY = {"dtype": "bfloat16", "shape": [4, 8], "device": "cpu", "start": OUTPUT_HEADER_BYTES}
ODD = [None, True, -1, 0, 2**63, 2**64, 10**40, 1.5, -0.0, "", "cpu\0", "\x1b[31m", [], [[]], {}, {"dtype": 1}, [2**70]]


def mutated(value: Any, chance: random.Random) -> Any:
    """`value` with something in it replaced, doubled, dropped or nested deeper."""
    if isinstance(value, dict) and value and chance.random() < 0.8:
        key = chance.choice(sorted(value))
        changed = {name: mutated(item, chance) if name == key else item for name, item in value.items()}
        if chance.random() < 0.2:
            del changed[key]
        return changed | ({"more": 1} if chance.random() < 0.1 else {})
    if isinstance(value, list) and value and chance.random() < 0.8:
        at = chance.randrange(len(value))
        return [*value[:at], mutated(value[at], chance), *value[at : at + chance.randrange(3)], *value[at + 1 :]]
    return chance.choice(ODD)


def entries_of_a_malformed_header(seed: int) -> list[dict[str, Any]]:
    """What is read from it; nothing where it is refused."""
    chance = random.Random(seed)
    value: Any = [ENTRY, {"other": "list"}, ENTRY]
    for _ in range(chance.randrange(1, 4)):
        value = mutated(value, chance)
    text = json.dumps(value).encode()
    if chance.random() < 0.2:
        text = text[: chance.randrange(len(text) + 1)]
    length = chance.choice([len(text), len(text) - 1, 2**64 - 1, OUTPUT_HEADER_BYTES])
    head = struct.pack("<Q", max(0, length)) + text
    try:
        return outputs.parse_header(head, file_bytes=FILE_BYTES)
    except outputs.HeaderError:
        return []


def is_harmless(entry: dict[str, Any]) -> bool:
    """Whether it has no zero bytes for a log, and begins inside the file."""
    return "\0" not in "".join(map(str, entry.values())) and entry.get("start", -1) < FILE_BYTES


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32))
def test_any_malformed_header_is_read_or_refused(seed: int) -> None:
    assert all(map(is_harmless, entries_of_a_malformed_header(seed)))


@pytest.mark.slow
@settings(max_examples=20_000, deadline=None)
@given(st.integers(0, 2**32))
def test_malformed_headers_thousands_of_times(seed: int) -> None:
    assert all(map(is_harmless, entries_of_a_malformed_header(seed)))


# ---- what a builder sends ---------------------------------------------------------------------------------------

FRAME = struct.Struct("<4sIQ")
NAME = "0" * 32 + "/ext.so"
KERNEL = f"triton/{'A' * 52}/__triton_launcher.cpython-312-x86_64-linux-gnu.so"


def frame(name: bytes, content: bytes, *, magic: bytes = b"PKBf", claims: int | None = None) -> bytes:
    return FRAME.pack(magic, len(name), len(content) if claims is None else claims) + name + content


FRAMES = st.lists(
    st.one_of(
        st.binary(max_size=80),
        st.just(frame(NAME.encode(), b"\x7fELF")),
        st.just(frame(KERNEL.encode(), b"\x7fELF")),
        st.just(frame(b"result.json", b'{"extensions": [], "notes": []}')),
        st.builds(frame, st.binary(max_size=300), st.binary(max_size=50)),
        st.builds(lambda size: frame(b"x", b"abc", claims=size), st.sampled_from([0, 2, 4, 2**40, 2**64 - 1])),
        st.sampled_from(
            [
                *(b"../../etc/passwd", b"/etc/passwd", NAME.encode() + b"/../x", b"a/b.so"),
                *(KERNEL.encode() + end for end in (b"/../x", b"\n", b"\0")),
                *(b"triton/" + b"A" * 52 + end for end in (b"/..", b"/.hidden", b"/-x", b"/")),
            ]
        ).map(lambda name: frame(name, b"x")),
    ),
    max_size=6,
)


@settings(max_examples=100, deadline=None)
@given(FRAMES)
def test_any_bytes_of_a_builder_give_files_of_the_fixed_form_or_none(parts: list[bytes]) -> None:
    sent = builder_process._parse(b"".join(parts), BuildLimits())  # noqa: SLF001 - the parser itself is what is tried
    assert set(sent.artefacts) <= {NAME, KERNEL}
    assert record_of(sent, seconds=1.0, primitives=()).result.artefacts.keys() <= {NAME, KERNEL}


OUTCOME = {
    "extensions": [
        {
            "name": "ext", "succeeded": False, "seconds": 1.0, "log": "nvcc x\next.cu(3): error: no\0thing",
            "is_certain": True, "file": "solution.py", "line": 9,
        }
    ],
    "notes": ["note"],
}  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32), st.binary(max_size=60))
def test_any_claim_of_a_builder_becomes_a_record_that_can_be_shown(seed: int, said: bytes) -> None:
    chance = random.Random(seed)
    value = mutated(OUTCOME, chance) if seed % 3 else OUTCOME
    sent = builder_process.Sent(result=json.dumps(value).encode(), said=said.decode(errors="replace"))
    record = record_of(sent, seconds=1.0, primitives=())
    text = record.to_json()
    assert "\\u0000" not in text
    assert "\\u001b" not in text
    assert len(record.findings) <= MAX_FINDINGS


def test_names_of_extensions_are_kept_without_control_characters() -> None:
    [extension] = OUTCOME["extensions"]
    value = OUTCOME | {"extensions": [extension | {"name": "\x1b[31mred", "file": "solution\x1b.py"}]}
    record = record_of(builder_process.Sent(result=json.dumps(value).encode(), said=""), seconds=1.0, primitives=())
    assert record.origins == {"[31mred": ("solution.py", 9)}


def test_errors_beyond_the_most_that_are_listed_are_counted() -> None:
    [extension] = OUTCOME["extensions"]
    log = "\n".join(f"ext.cu({line}): error: no" for line in range(1, MAX_FINDINGS + 11))
    value = OUTCOME | {"extensions": [extension | {"log": log}]}
    record = record_of(builder_process.Sent(result=json.dumps(value).encode(), said=""), seconds=1.0, primitives=())
    assert len(record.findings) == MAX_FINDINGS
    assert record.findings[-1].message == "11 further errors, which the build log has"


def test_a_log_without_its_middle_says_so() -> None:
    [extension] = OUTCOME["extensions"]
    for log, is_cut in (("short", False), ("long" * 100_000, True)):
        value = OUTCOME | {"extensions": [extension | {"log": log}]}
        record = record_of(builder_process.Sent(result=json.dumps(value).encode(), said=""), seconds=1.0, primitives=())
        assert (record.result.is_cut, "characters left out" in record.result.log) == (is_cut, is_cut)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.text(max_size=80), st.just("ext.cu(3): error: x"), st.just("a" * 4000)), max_size=80))
def test_any_compiler_output_gives_findings(lines: list[str]) -> None:
    found = find_errors("\n".join(lines), origin=Origin(name="ext", file="solution.py", line=1))
    assert found


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.one_of(st.text(max_size=200), st.just("SIGINT(2), PID: 1, Thread 2:"), st.just(" frame #1: x (0x1 in /y)"))
    )
)
def test_any_native_dump_is_read(lines: list[str]) -> None:
    assert len(native("\n".join(lines))) < 100_000


# ---- reports ----------------------------------------------------------------------------------------------------


def a_report() -> EvaluationReport:
    report = failure_report(request_for("correct", mode=Mode.CHECK), "it failed")
    return msgspec.structs.replace(
        report,
        findings=(Finding(verdict=Verdict.CRASHED, message="x", rank=1),),
        ranks=(RankState(rank=0, exit="exit 0", phase="in call 1", calls_done=1),),
    )


def malformed_report(seed: int) -> EvaluationReport | None:
    """What is read from it; None where it is refused."""
    chance = random.Random(seed)
    value = json.loads(a_report().to_json())
    for _ in range(chance.randrange(1, 4)):
        value = mutated(value, chance)
    text = json.dumps(value)
    if chance.random() < 0.2:
        text = text[: chance.randrange(len(text) + 1)]
    try:
        return EvaluationReport.from_json(text)
    except ContractError:
        return None


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32))
def test_any_malformed_report_is_read_or_refused(seed: int) -> None:
    report = malformed_report(seed)
    assert report is None or EvaluationReport.from_json(report.to_json()) == report


@pytest.mark.slow
@settings(max_examples=20_000, deadline=None)
@given(st.integers(0, 2**32))
def test_malformed_reports_thousands_of_times(seed: int) -> None:
    report = malformed_report(seed)
    assert report is None or EvaluationReport.from_json(report.to_json()) == report


@pytest.mark.parametrize("make", [lambda: b"[" * 100_000, lambda: b'{"a":' * 100_000, lambda: b"\xff\xfe" * 1000])
def test_deep_and_broken_text_is_refused(make: Callable[[], bytes]) -> None:
    with pytest.raises(ContractError):
        EvaluationReport.from_json(make())
