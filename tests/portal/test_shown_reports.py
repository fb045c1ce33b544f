"""Whatever a node says within the ranges of the contract is refused, or all pages and addresses can show it."""

import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from django.db import transaction
from django.http import HttpResponse
from django.test import Client
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from msgspec import inspect

from evaluator.contract import (
    Canary,
    Collective,
    DriverFault,
    ErrorMap,
    ErrorPattern,
    EvaluationReport,
    Finding,
    Instruction,
    KernelCode,
    MachineCode,
    Mode,
    RankState,
    SlotState,
    Verdict,
)
from evaluator.contract.code import pack
from portal.exports.tables import get_table
from portal.nodes.models import Slot
from portal.operations.recorded.reports import read_reports
from portal.submissions.models import Evaluation, State
from portal.tabular import tables
from problems import registry
from tests.portal.conftest import NODE_KEY
from tests.portal.factories import bundle, evaluation_of, submit
from tests.portal.telling import post

pytestmark = pytest.mark.django_db

_ON_CPU = (Path(__file__).parent / "data" / "allreduce_on_cpux2.reports.xz", "allreduce")
_ON_GPUS = (registry.DATA / "entries" / "kernels.reports.xz", "gemm_allreduce")
_MOST_BYTES = 12 * 1024**2
"""No answer is longer, whatever a report holds."""


def _read(path: Path, problem: str) -> EvaluationReport:
    return next(report for report in read_reports(path).values() if report.problem == problem and not report.points)


def _wrong(report: EvaluationReport) -> EvaluationReport:
    """The same call by call, with everything that a report on a wrong program may have."""
    drawn = ErrorMap(
        shape=(8, 8),
        counts=((0, 3), (1, 0)),
        largest_at=(0, 5),
        shard_dimension=0,
        shards=(3, 1),
        pattern=ErrorPattern.SCATTERED,
        sentence="scattered over 2 rows",
    )
    found = Finding(
        verdict=Verdict.WRONG_RESULT, message="at solution.py:3", rank=0, size="base", output="out", file="solution.py"
    )
    waiting = Collective(operation="nccl:all_reduce", ranks=(0, 1), number=1, sequence=7, tensors="", is_done=False)
    return msgspec.structs.replace(
        report,
        verdict=Verdict.WRONG_RESULT,
        timing=None,
        findings=(msgspec.structs.replace(found, error_map=drawn, line=3), found),
        warnings=(found,),
        ranks=tuple(
            RankState(
                rank=rank,
                exit="exit 1",
                phase="in call 3",
                calls_done=2,
                error='File "solution.py", line 3, in solution\nValueError: x',
                stack='File "solution.py", line 3 in solution',
                log="hello",
                collectives=(waiting,),
            )
            for rank in range(2)
        ),
        canaries=(Canary(at="start", is_full=True, failures=("rank 0 was not exact",)),),
        driver_faults=(DriverFault(gpu=0, xid=31),),
    )


def _profiled(report: EvaluationReport) -> EvaluationReport:
    kernel = KernelCode(
        name="tile", symbol="_Z4tile", module="m.so", count=1, packed=pack([Instruction(text="EXIT", file=0, line=2)])
    )
    code = MachineCode(files=("solution.py",), kernels=(kernel, kernel))
    return msgspec.structs.replace(report, mode=Mode.PROFILE, timing=None, machine_code=code)


BASES = {
    "timed on CPUs": _read(*_ON_CPU),
    "timed on GPUs": _read(*_ON_GPUS),
    "wrong": _wrong(_read(*_ON_GPUS)),
    "profiled": _profiled(_read(*_ON_GPUS)),
}


# ---- values of the contract's types ---------------------------------------------------------------------------------

_LETTERS = st.sampled_from(["", "<script>alert(1)</script>", "\0", "\u202e", "%s%n{}", "../../etc/passwd", "base"])


def _ends(low: Any, high: Any, nearby: Any, between: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.sampled_from([low, high, max(low, min(high, nearby))]) | between


def _numbers(kind: inspect.IntType | inspect.FloatType) -> st.SearchStrategy[Any]:
    if isinstance(kind, inspect.FloatType):
        low, high = (-1.7e308 if kind.ge is None else kind.ge), (1.7e308 if kind.le is None else kind.le)
        return _ends(low, high, 1e-9, st.floats(low, high))
    low = -(2**63) if kind.ge is None else kind.ge
    high = kind.le if kind.le is not None else 2**63 - 1 if kind.lt is None else kind.lt - 1
    return _ends(low, high, 0, st.integers(low, high))


def _texts(kind: inspect.StrType) -> st.SearchStrategy[str]:
    return _LETTERS | st.sampled_from(["🦄", "\n"]).map(lambda one: one * min(kind.max_length or 20_000, 20_000))


def _lists(kind: inspect.VarTupleType) -> st.SearchStrategy[list[Any]]:
    least = kind.min_length or 0
    return st.lists(values(kind.item_type), min_size=least, max_size=max(least, 2))


def _structs(kind: inspect.StructType) -> st.SearchStrategy[Any]:
    each = {field.encode_name: values(field.type) for field in kind.fields}
    return st.tuples(*each.values()).map(list) if kind.array_like else st.fixed_dictionaries(each)


_DRAWN: dict[type[inspect.Type], Callable[[Any], st.SearchStrategy[Any]]] = {
    inspect.IntType: _numbers,
    inspect.FloatType: _numbers,
    inspect.StrType: _texts,
    inspect.VarTupleType: _lists,
    inspect.StructType: _structs,
    inspect.TupleType: lambda kind: st.tuples(*map(values, kind.item_types)).map(list),
    inspect.DictType: lambda kind: st.dictionaries(values(kind.key_type), values(kind.value_type), max_size=3),
    inspect.EnumType: lambda kind: st.sampled_from([member.value for member in kind.cls]),
    inspect.UnionType: lambda kind: st.one_of(*map(values, kind.types)),
    inspect.BytesType: lambda _kind: st.sampled_from(["", "AAAA"]),
    inspect.BoolType: lambda _kind: st.booleans(),
    inspect.NoneType: lambda _kind: st.none(),
}


def values(kind: inspect.Type) -> st.SearchStrategy[Any]:
    """JSON of a type of the contract, the ends of its ranges more often than the rest."""
    return _DRAWN[type(kind)](kind)


@dataclass(frozen=True)
class Place:
    """A value in a report: what holds it, under which key, and its type."""

    path: tuple[str | int, ...]
    kind: inspect.Type


_FIXED = frozenset({"evaluation_id", "problem", "revision", "source_digest", "backend", "profile", "mode"})
"""What a report repeats of its request: with another value it is another evaluation's."""


def places(kind: inspect.Type, value: Any, path: tuple[str | int, ...] = ()) -> Iterator[Place]:
    """Every value below `value`, of a list the first two entries."""
    if path:
        yield Place(path, kind)
    match kind, value:
        case inspect.UnionType(types=types), _ if value is not None:
            yield from places(next(one for one in types if not isinstance(one, inspect.NoneType)), value, path)
        case inspect.StructType(fields=fields, array_like=True), list():
            for number, (field, one) in enumerate(zip(fields, value, strict=False)):
                yield from places(field.type, one, (*path, number))
        case inspect.StructType(fields=fields), dict():
            for field in fields:
                if field.encode_name in value and not (len(path) == 0 and field.encode_name in _FIXED):
                    yield from places(field.type, value[field.encode_name], (*path, field.encode_name))
        case inspect.VarTupleType(item_type=item), list():
            for number, one in enumerate(value[:2]):
                yield from places(item, one, (*path, number))


_REPORT = inspect.type_info(EvaluationReport)


def bent(draw: st.DataObject, report: EvaluationReport) -> dict[str, Any]:
    """The report's JSON with one to four values replaced by others of their types."""
    content = json.loads(report.to_json())
    for place in draw.draw(st.lists(st.sampled_from(list(places(_REPORT, content))), min_size=1, max_size=4)):
        *way, last = place.path
        holder = content
        try:
            for step in way:
                holder = holder[step]
            before = holder[last]
        except (KeyError, IndexError, TypeError):
            continue  # an earlier replacement took it away
        longer = st.just(before * 300) if isinstance(before, list) and len(before) < 10 else st.nothing()
        holder[last] = draw.draw(longer | values(place.kind))
    return content


# ---- what shows a report --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Held:
    """An evaluation that a node holds, and the report that its judge would write."""

    evaluation: Evaluation
    report: EvaluationReport
    lease: str

    def send(self, content: dict[str, Any]) -> HttpResponse:
        """The site's answer to a report with this content."""
        text = json.dumps({"lease": self.lease, "node": "alpha", "report": content})
        return post("report", gzip.compress(text.encode(), 1), key=NODE_KEY, node="alpha")

    def refusal(self, content: dict[str, Any]) -> str:
        """What the site answers to a report that it does not take."""
        answer = self.send(content)
        assert answer.status_code == 422, answer.content
        self.evaluation.refresh_from_db()
        assert self.evaluation.state == State.LEASED
        return json.dumps(answer.json(), ensure_ascii=False)

    def deliver(self, content: dict[str, Any]) -> Evaluation:
        """What becomes of the evaluation once the node has delivered this content as its report."""
        self.send(content)
        return Evaluation.objects.get(pk=self.evaluation.pk)


def hold(author, node, report: EvaluationReport) -> Held:
    """A submission to the report's board, sent to `node`."""
    node.backends = ["pytorch", "cuda", "triton"]
    node.save()
    Slot.objects.update_or_create(node=node, index=1, defaults={"profile": report.profile, "state": SlotState.FREE})
    submission = submit(
        author,
        problem=report.problem,
        profile=report.profile,
        mode=report.mode.value,
        visibility="public",
        files=bundle(registry.reference_source(report.problem)),
    )
    evaluation = evaluation_of(submission)
    lease = f"lease of {evaluation.pk}"
    Evaluation.objects.filter(pk=evaluation.pk).update(state=State.LEASED, lease=lease, node=node, slot_index=1)
    report = msgspec.structs.replace(
        report,
        evaluation_id=str(evaluation.pk),
        source_digest=submission.source.digest,
        backend=evaluation.submission.backend,
        revision=evaluation.problem_revision,
    )
    return Held(evaluation, report, lease)


def addresses(evaluation: Evaluation) -> Iterator[str]:
    """Everything that shows a report, or what was taken from one."""
    submission = evaluation.submission
    page, pk, slug = f"/submissions/{submission.pk}/", evaluation.pk, submission.problem
    yield from (page, f"{page}?desk=1", f"{page}?evaluation={pk}", f"{page}live/", f"{page}live/?desk=1")
    yield f"{page}compare/?with=reference"
    yield from (f"/submissions/evaluations/{pk}/{name}" for name in ("report.json", "trace.json", "machine-code/"))
    api = f"/api/v1/submissions/{submission.pk}/"
    yield from (api, "/api/v1/submissions/")
    yield from (f"{api}evaluations/{pk}/{name}" for name in ("", "trace/", "machine-code/"))
    board = f"?profile={evaluation.profile}"
    yield from (f"/problems/{slug}/{name}{board}" for name in ("", "leaderboard/", "records/", "scaling/", "submit/"))
    yield f"/api/v1/problems/{slug}/leaderboard/{board}"
    yield from (f"/leaderboards/{name}{board}" for name in ("people/", "people/alice/", "records/"))
    yield "/feeds/records.atom"
    yield from ("/", "/submissions/", f"/roofline/{board}", f"/roofline/data.csv{board}", "/nodes/", "/search/?q=alice")
    yield from (f"/problems/{slug}/", f"/roofline/?problem={slug}")


@pytest.fixture
def reader(operator):
    """Somebody who may read everything."""
    client = Client(raise_request_exception=True)
    client.force_login(operator)
    return client


@pytest.fixture(autouse=True)
def _plain_static_files(settings):
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}


def assert_shown(reader: Client, evaluation: Evaluation) -> None:
    for address in addresses(evaluation):
        response = reader.get(address)
        assert response.status_code < 500, address
        content = b"".join(response.streaming_content) if response.streaming else response.content
        assert len(content) <= _MOST_BYTES, (address, len(content))
        assert b"<script>alert(1)" not in content or "html" not in response["Content-Type"], address
    for table in ("leaderboards", "evaluations"):
        assert b"".join(tables.written(get_table(table), format="csv"))


def refused_or_shown(author, node, reader: Client, *, report: EvaluationReport, draw: st.DataObject) -> None:
    """Deliver a bent report; where it counts, look at everything. Changes nothing in the end."""
    with transaction.atomic():
        held = hold(author, node, report)
        evaluation = held.deliver(bent(draw, held.report))
        if evaluation.state == State.LEASED:
            event("refused")
        else:
            event("shown")
            assert_shown(reader, evaluation)
        transaction.set_rollback(True)


_MANY = settings(max_examples=400, suppress_health_check=list(HealthCheck))
_FEW = settings(_MANY, max_examples=6)


@pytest.mark.parametrize("base", BASES)
def test_a_judges_own_report_is_shown_everywhere(alice, node, reader, base):
    held = hold(alice, node, BASES[base])
    evaluation = held.deliver(json.loads(held.report.to_json()))
    assert evaluation.state == State.FINISHED
    assert_shown(reader, evaluation)


@pytest.mark.parametrize("base", BASES)
@_FEW
@given(draw=st.data())
def test_what_the_contract_accepts_is_refused_or_shown(alice, node, reader, base, draw):
    refused_or_shown(alice, node, reader, report=BASES[base], draw=draw)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("base", BASES)
@_MANY
@given(draw=st.data())
def test_hundreds_of_reports_are_refused_or_shown(alice, node, reader, base, draw):
    refused_or_shown(alice, node, reader, report=BASES[base], draw=draw)


# ---- what was shown as a failure before ------------------------------------------------------------------------------


def _set(content: dict[str, Any], path: str, value: Any) -> None:
    *way, last = (int(step) if step.isdigit() else step for step in path.split("."))
    holder: Any = content
    for step in way:
        holder = holder[step]
    holder[last] = value


_NONSENSE = [
    ("timed on CPUs", "world_size", 10**15, "Expected `int` <= 64"),
    ("timed on CPUs", "world_size", 4, "world_size is '4' and was assigned as '2'"),
    ("timed on CPUs", "timing.blocks", [], "Expected `array` of length >= 1"),
    ("timed on CPUs", "timing.score", 0.0, "Expected `float` >= 1e-100"),
    ("timed on CPUs", "timing.low", -1.0, "Expected `float` >= 1e-100"),
    ("timed on CPUs", "timing.sizes.0.candidate.median_us", 1e300, "Expected `float` <= 1e+100"),
    ("timed on CPUs", "timing.sizes.0.baseline.median_us", 0.0, "Expected `float` >= 1e-100"),
    ("timed on CPUs", "timing.sizes.0.size", "huge", "names the size 'huge'"),
    ("timed on CPUs", "timing.sizes.0.rank_medians_us", [1.0] * 3, "medians of other than 2 ranks"),
    ("timed on CPUs", "record.rules.resolution_us", 0.0, "Expected `float` >= 1e-100"),
    ("timed on CPUs", "record.sizes.0.calls.0.7", [], "Expected `array` of length >= 1"),
    ("timed on CPUs", "record.sizes.0.calls.0.7", [1], "without the times of 2 ranks"),
    ("timed on GPUs", "timeline.submission.ranks.0.spans.0", ["kernel", 0, 10**6, 0, 1], "that is not listed"),
    ("timed on GPUs", "timeline.submission.ranks.0.spans.0", ["kernel", -1, 0, 0, 1], "Expected `int` >= 0"),
    ("timed on GPUs", "timeline.submission.ranks.0.lanes", [], "that is not listed"),
    ("timed on GPUs", "timeline.submission.ranks.1.rank", 0, "stands where rank 1 belongs"),
    ("timed on GPUs", "timeline.submission.ranks", [{"rank": rank} for rank in range(3)], "more than 2 ranks"),
    ("timed on GPUs", "timeline.size", "huge", "names the size 'huge'"),
    ("wrong", "findings.0.error_map.counts", [[1, 2], []], "Expected `array` of length >= 1"),
    ("wrong", "findings.0.error_map.counts", [[1, 2], [3]], "different lengths"),
    ("wrong", "findings.0.error_map.counts", [[9] * 400] * 400, "Expected `array` of length <= 32"),
    ("wrong", "ranks.0.rank", -5, "Expected `int` >= 0"),
    ("wrong", "ranks.0.rank", 40, "ranks are not those of 2 ranks"),
    ("wrong", "message", "m" * 2_000_000, "Expected `str` of length <= 5000"),
]


@pytest.mark.parametrize("nonsense", _NONSENSE, ids=lambda case: f"{case[1]}, {case[3]}")
def test_nonsense_is_refused_and_the_answer_says_why(alice, node, nonsense):
    base, path, value, reason = nonsense
    held = hold(alice, node, BASES[base])
    content = json.loads(held.report.to_json())
    _set(content, path, value)
    assert reason in held.refusal(content)


def test_dimensions_of_another_card_change_no_floor(alice, node, reader):
    held = hold(alice, node, BASES["timed on GPUs"])
    content = json.loads(held.report.to_json())
    for size in content["sizes"]:
        size["dims"] = {"nonsense": 0}
    evaluation = held.deliver(content)
    assert evaluation.state == State.FINISHED
    assert_shown(reader, evaluation)
    page = reader.get(f"/submissions/{evaluation.submission_id}/").content.decode()
    assert "Times against the floor" in page, "floors come from the card here"


def test_an_entry_without_a_time_at_its_profiles_sizes_is_shown(alice, node, reader):
    held = hold(alice, node, BASES["timed on CPUs"])
    content = json.loads(held.report.to_json())
    content["timing"]["sizes"] = []
    evaluation = held.deliver(content)
    assert evaluation.state == State.FINISHED
    assert_shown(reader, evaluation)
    board = reader.get(f"/problems/allreduce/leaderboard/?profile={evaluation.profile}").content.decode()
    assert '<td class="num" data-label="time"><span class="muted">unknown</span></td>' in board


def test_a_report_of_more_than_eight_megabytes_is_refused(alice, node):
    held = hold(alice, node, BASES["timed on CPUs"])
    content = json.loads(held.report.to_json())
    content["record"]["sizes"][0]["empty_ns"] = [10**15] * 600_000
    assert "more than 8,388,608" in held.refusal(content)


def test_many_kernels_that_unpack_to_megabytes_are_listed_within_bounds(alice, node, reader):
    held = hold(alice, node, BASES["profiled"])
    packed = pack([Instruction(text="A" * 500)] * 7900)
    kernel = msgspec.structs.replace(held.report.machine_code.kernels[0], packed=packed)
    code = msgspec.structs.replace(held.report.machine_code, kernels=(kernel,) * 64)
    evaluation = held.deliver(json.loads(msgspec.structs.replace(held.report, machine_code=code).to_json()))
    assert evaluation.state == State.FINISHED
    address = f"/api/v1/submissions/{evaluation.submission_id}/evaluations/{evaluation.pk}/machine-code/"
    listed = json.loads(reader.get(address).content)["kernels"]
    assert len(listed) == 64
    assert sum(len(one["instructions"]) for one in listed) == 9 * 7900
