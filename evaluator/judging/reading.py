"""Reading a submission's source. Text in, text out, so that another process can do it."""

from evaluator.contract import Detection, EvaluationRequest, Finding, Message, Verdict
from evaluator.hardware import profiles
from evaluator.judging import collectives, primitives, source_rules
from problems import registry


class SourceReading(Message, frozen=True, kw_only=True):
    """What the source shows: findings, warnings (findings only in ranked mode) and detected primitives."""

    findings: tuple[Finding, ...]
    warnings: tuple[Finding, ...] = ()
    primitives: tuple[Detection, ...] = ()


READ_SOURCE = f"{__name__}:read_source"
"""The name by which another process calls `read_source`."""


def read_source(request_text: str) -> str:
    """The `SourceReading` of the request that `request_text` holds, both as JSON."""
    request = EvaluationRequest.from_json(request_text)
    profile = profiles.get(request.profile)
    findings = source_rules.check_source(
        registry.get(request.problem), request.source, backend=request.backend, profile=profile, mode=request.mode
    )
    if any(finding.verdict is not Verdict.UNSUPPORTED for finding in findings):
        return SourceReading(findings=findings).to_json()
    is_on_gpus = profile.is_on_gpus
    return SourceReading(
        findings=findings,
        warnings=source_rules.warnings(request.source, backend=request.backend, mode=request.mode),
        primitives=primitives.in_source(request.source, collectives=collectives.COLLECTIVES) if is_on_gpus else (),
    ).to_json()
