"""One evaluation as a file, with all that judges it again."""

import io
import json
import zipfile

import msgspec
from django.conf import settings
from django.template.loader import render_to_string
from django.utils import timezone

from portal.submissions.models import Evaluation
from portal.submissions.queries import latest_report, request_of
from problems import registry


def bundle(evaluation: Evaluation) -> bytes:
    """One evaluation with all that judges it again: source, request, problem, report, environment, the command."""
    submission = evaluation.submission
    report = latest_report(evaluation)
    current = {problem.slug: registry.revision(problem.slug) for problem in registry.problems()}
    is_present = current.get(submission.problem) == evaluation.problem_revision
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in submission.source.files.files:
            archive.writestr(f"source/{file.path}", file.text)
        # Whoever judges it again has no tries before.
        request = msgspec.structs.replace(request_of(evaluation), earlier=())
        archive.writestr("request.json", request.to_json())
        if report is not None:
            archive.writestr("report.json", report.to_json())
            archive.writestr("environment.json", json.dumps(report.environment, indent=2) + "\n")
        if is_present:
            for path in sorted(registry.folder(submission.problem).glob("*.*")):
                archive.writestr(f"problem/{path.name}", path.read_bytes())
        context = {
            "evaluation": evaluation,
            "submission": submission,
            "report": report,
            "is_present": is_present,
            "made_at": timezone.now(),
            "site": settings.SITE_URL,
        }
        archive.writestr("README.md", render_to_string("exports/bundle.md.txt", context))
    return buffer.getvalue()
