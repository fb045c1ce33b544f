"""How many bytes a call moves over the links of each rank, as far as anything shows it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from evaluator.contract import EvaluationReport
from evaluator.hardware import profiles
from portal.submissions.reports.timelines import counted_links, recorded_links

NO_COUNTERS = "UNAVAILABLE: the links' counters were not read"


@dataclass(frozen=True, kw_only=True)
class LinkRow:
    """What one rank sent and received over its links in a usual call of the program `title`, or `why` nobody knows."""

    title: str
    rank: int
    sent_bytes: int | None
    received_bytes: int | None
    least_bytes: float
    why: str


def link_rows(reports: Mapping[str, EvaluationReport]) -> list[LinkRow]:
    """Every rank of every report at its recorded size; empty without GPUs."""
    return [
        row
        for title, report in reports.items()
        if profiles.get(report.profile).gpu is not None and report.timeline is not None
        for row in _link_rows(title, report)
    ]


def _link_rows(title: str, report: EvaluationReport) -> Iterator[LinkRow]:
    links, whole = recorded_links(report), counted_links(report)
    for rank in range(report.world_size):
        yield LinkRow(
            title=title,
            rank=rank,
            sent_bytes=whole.sent_bytes[rank] if whole is not None else None,
            received_bytes=whole.received_bytes[rank] if whole is not None else None,
            least_bytes=links.least_bytes if links is not None else 0.0,
            why=NO_COUNTERS if whole is None else "",
        )
