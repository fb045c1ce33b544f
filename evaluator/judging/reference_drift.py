"""Was the reference slower beside the submission than before any rank could read it? An alarm, never a verdict.

Legs of reference and submission alternate, so what slows both cancels in the score. What slows the reference alone
raises the score. A busy host causes the alarm too, so a person looks at the record.
"""

from collections.abc import Sequence
from statistics import median, quantiles

from evaluator.contract import SizeRecord

SLOWER = 1.15
"""The ratio of medians, later legs to the calls before, that causes an alarm where the middle halves are apart."""

_LEAST_CALLS, _LEAST_NS = 4, 20_000


def alarms(sizes: Sequence[SizeRecord]) -> tuple[str, ...]:
    """One sentence for every size and worker group beside which the reference was slower than before."""
    return tuple(sentence for size in sizes if (sentence := _alarm(size)) is not None)


def _alarm(size: SizeRecord) -> str | None:
    later = [call.time_ns for block in size.reference for call in block]
    alone = list(size.reference_alone_ns)
    if min(len(later), len(alone)) < _LEAST_CALLS:
        return None
    before, after = median(alone), median(later)
    are_apart = quantiles(later, n=4)[0] > quantiles(alone, n=4)[2]
    if not are_apart or after < SLOWER * before or after - before < _LEAST_NS:
        return None
    return (
        f"{size.size}, worker group {size.group_number}: the reference took {after / 1000:.0f} us beside the "
        f"submission, {after / before:.2f} times the {before / 1000:.0f} us before any rank could read the submission"
    )
