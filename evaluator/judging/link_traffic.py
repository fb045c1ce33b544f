"""Whether enough bytes crossed the links for the problem: a flag for a person, not a verdict.

The verdict TRAFFIC_BELOW_MINIMUM is for problems whose minimum a person has reviewed. There are none so far.
"""

from collections.abc import Sequence

from evaluator.contract import LinkTraffic

LEAST_SHARE = 0.5
"""Traffic below this share of the model's minimum is flagged. Honest programs send the minimum or more."""

LEAST_BYTES = 1024 * 1024
"""A smaller minimum, over all counted calls, is not judged: the counters count KiB, and other traffic too."""


def weigh(*, calls: int, sent: Sequence[int], received: Sequence[int], least_bytes: float) -> LinkTraffic:
    """The counted traffic, with a flag where the busiest rank moved far less than the model's minimum.

    Args:
        calls: how many calls were counted, at least one.
        sent: bytes that each rank sent in all of them.
        received: bytes that each rank received in all of them.
        least_bytes: the cost model's minimum of the busiest rank per call, one way.
    """
    return LinkTraffic(
        calls=calls,
        sent_bytes=tuple(count // calls for count in sent),
        received_bytes=tuple(count // calls for count in received),
        least_bytes=least_bytes,
        flag=_flag(max((*sent, *received), default=0), calls * least_bytes, calls=calls),
    )


def _flag(moved: int, least: float, *, calls: int) -> str:
    if least < LEAST_BYTES or moved >= LEAST_SHARE * least:
        return ""
    return (
        f"the links carried at most {moved // calls:,} bytes per call and rank; the problem needs "
        f"{least / calls:,.0f}. A person should check how the output can be correct without them"
    )
