"""Whether as many bytes crossed the links as the problem needs: a flag for a person, not a verdict.

TRAFFIC_BELOW_MINIMUM is for problems whose minimum a person has reviewed, and so far there are none.
"""

from collections.abc import Sequence

from evaluator.contract import LinkTraffic

LEAST_SHARE = 0.5
"""Less than this share of the model's minimum is flagged; honest programs send the minimum or more."""

LEAST_BYTES = 1024 * 1024
"""A minimum below this, over all counted calls, is not judged: the counters count KiB, and not only ours."""


def weigh(*, calls: int, sent: Sequence[int], received: Sequence[int], least_bytes: float) -> LinkTraffic:
    """What was counted, flagged where the busiest rank moved far less than the model demands.

    Args:
        calls: how many calls were counted, at least one.
        sent: bytes that each rank sent in all of them.
        received: the same one way back.
        least_bytes: what the cost model demands of the busiest rank per call, one way.
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
        f"the links carried at most {moved // calls:,} bytes per call and rank where the problem needs "
        f"{least / calls:,.0f}: how a right answer came about without them is for a person to look at"
    )
