"""Reads reports of earlier judges: JSON of the first schema becomes JSON of the present one.

Judges of the first schema took times from the ranks' own clocks. Their conclusions are kept: verdict, findings, score,
interval, blocks and summaries. Their calls and tolerances have no meaning today and are dropped. `schema_version` stays
1, so that a reader can see it.
"""

from typing import Any

import msgspec

FIRST_SCHEMA = 1
"""The schema of reports whose times came from the ranks' own clocks (`Timing.rule` 1)."""

_GONE_OF_SIZES = frozenset(
    {"window_us", "gap_us", "band_us", "outside_us", "outside_band_us", "burst_us", "burst_band_us"}
)
"""Former fields of `SizeTiming`: medians with which self-reported times were compared."""


class _Report(msgspec.Struct):
    """The version of a report, whatever else it holds."""

    schema_version: int


class _Delivery(msgspec.Struct):
    """The version of a delivered report."""

    report: _Report


def present_report(text: str | bytes) -> str | bytes:
    """A report's JSON in the present schema; any other text is returned unchanged."""
    try:
        if msgspec.json.decode(text, type=_Report).schema_version != FIRST_SCHEMA:
            return text
        return msgspec.json.encode(_present(msgspec.json.decode(text)))
    except (msgspec.MsgspecError, RecursionError):
        # The full decoder names the error.
        return text


def present_delivery(text: str | bytes) -> str | bytes:
    """The same of the report in a delivery's JSON."""
    try:
        if msgspec.json.decode(text, type=_Delivery).report.schema_version != FIRST_SCHEMA:
            return text
        delivery = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return text
    return msgspec.json.encode({**delivery, "report": _present(delivery["report"])})


def _present(report: dict[str, Any]) -> dict[str, Any]:
    return {**report, "record": None, "timing": _timing(report.get("timing"))}


def _timing(timing: Any) -> Any:
    if not isinstance(timing, dict):
        return timing
    return {**timing, "rule": 1, "sizes": _sizes(timing.get("sizes"))}


def _sizes(sizes: Any) -> Any:
    if not isinstance(sizes, list):
        return sizes
    return [
        {name: value for name, value in size.items() if name not in _GONE_OF_SIZES} if isinstance(size, dict) else size
        for size in sizes
    ]
