"""Site and nodes of neighbouring releases read each other's messages, in both directions.

`releases/VERSION.json.xz` holds, of each release, the JSON schema of its messages and one real message of each kind.
A release adds its own with `python -m tests.evaluator.test_messages_across_releases 0.4.0`.
"""

import json
import lzma
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from evaluator.contract import (
    VERSION,
    Assignment,
    BuildOrder,
    Cancellation,
    Delivery,
    EarlierTry,
    EvaluationReport,
    EvaluationRequest,
    Message,
    Mode,
    NodeStatus,
    Progress,
    Receipt,
    SandboxLevel,
    SlotState,
    SlotStatus,
    SourceBundle,
    SourceFile,
    Stage,
    Verdict,
)
from problems import registry

RELEASES = Path(__file__).parent / "releases"
KINDS: tuple[type[Message], ...] = (Assignment, BuildOrder, Cancellation, Receipt, Progress, Delivery, NodeStatus)


@cache
def messages() -> dict[str, Message]:
    """One message of each kind as this release writes it, with optional fields filled."""
    recorded = lzma.decompress((registry.DATA / "entries" / "kernels.reports.xz").read_bytes()).splitlines()
    report = next(each for each in map(EvaluationReport.from_json, recorded) if each.timeline is not None)
    request = EvaluationRequest(
        evaluation_id=report.evaluation_id,
        problem=report.problem,
        revision=report.revision,
        source=SourceBundle(files=(SourceFile(path="solution.py", text="def solution(): ..."),)),
        backend=report.backend,
        profile=report.profile,
        mode=Mode.CHECK,
        sizes=("base",),
        dtype="float32",
        attempt=2,
        earlier=(EarlierTry(attempt=1, verdict=Verdict.JUDGE_ERROR, reason="The node was lost."),),
        regime="zeros",
    )
    slot = SlotStatus(index=0, profile="cpux2", state=SlotState.BUSY, evaluation_id=report.evaluation_id, note="busy")
    made = (
        Assignment(lease="lease", slot=0, request=request, request_id="asked"),
        BuildOrder(lease="lease", request=request, request_id="asked"),
        Cancellation(lease="lease", evaluation_id=report.evaluation_id),
        Receipt(sha256="0" * 64, version=VERSION),
        Progress(evaluation_id=report.evaluation_id, lease="lease", stage=Stage.TIMING, detail="base", fraction=0.5),
        Delivery(lease="lease", node="alpha", report=report, is_returned=True, error_log="log"),
        NodeStatus(
            node="alpha",
            slots=(slot,),
            sandbox=SandboxLevel.FULL,
            backends=(report.backend,),
            revisions={report.problem: report.revision},
            environment={"pkb": VERSION},
            running=(report.evaluation_id,),
            builders=2,
            built=("lease",),
            refusals=("heartbeat: why",),
        ),
    )
    return {type(each).__name__: each for each in made}


RELEASED = sorted(RELEASES.glob("*.json.xz"))


@cache
def _release(path: Path) -> dict[str, Any]:
    return json.loads(lzma.decompress(path.read_bytes()))


@pytest.mark.parametrize("release", RELEASED, ids=lambda path: path.name)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_what_an_earlier_release_wrote_is_read_today(release, kind):
    written = _release(release)["messages"][kind.__name__]
    read = json.loads(kind.from_json(json.dumps(written)).to_json())
    assert_holds(read, written)


@pytest.mark.parametrize("release", RELEASED, ids=lambda path: path.name)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_what_is_written_today_fits_what_an_earlier_release_read(release, kind):
    written = json.loads(messages()[kind.__name__].to_json())
    jsonschema.validate(written, _release(release)["schemas"][kind.__name__])


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_fields_of_a_later_release_are_ignored_wherever_they_stand(kind):
    now = messages()[kind.__name__]
    later = json.loads(now.to_json())
    for record in list(_records(later, msgspec.inspect.type_info(kind))):
        record["field_of_a_later_release"] = {"more": [1]}
    assert kind.from_json(json.dumps(later)) == now


def assert_holds(read: Any, written: Any) -> None:
    """`read` says everything that `written` does; fields that have come since may stand beside."""
    if isinstance(written, dict):
        for name, value in written.items():
            assert_holds(read[name], value)
    elif isinstance(written, list):
        assert len(read) >= len(written)
        for one, other in zip(read, written, strict=False):
            assert_holds(one, other)
    else:
        assert read == written


def _records(value: Any, kind: msgspec.inspect.Type) -> Iterator[dict[str, Any]]:
    """Every record in a message's JSON, wherever the contract has one; no table whose keys are data."""
    match kind, value:
        case msgspec.inspect.UnionType(types=types), _ if value is not None:
            yield from _records(value, next(one for one in types if not isinstance(one, msgspec.inspect.NoneType)))
        case msgspec.inspect.StructType(fields=fields, array_like=False), dict():
            for field in fields:
                yield from _records(value.get(field.encode_name), field.type)
            yield value
        case msgspec.inspect.StructType(fields=fields), list():
            for field, one in zip(fields, value, strict=False):
                yield from _records(one, field.type)
        case msgspec.inspect.VarTupleType(item_type=item), list():
            for one in value:
                yield from _records(one, item)


if __name__ == "__main__":
    content = {
        "schemas": {kind.__name__: msgspec.json.schema(kind) for kind in KINDS},
        "messages": {name: json.loads(message.to_json()) for name, message in messages().items()},
    }
    RELEASES.mkdir(exist_ok=True)
    (RELEASES / f"{sys.argv[1]}.json.xz").write_bytes(lzma.compress(json.dumps(content).encode()))
