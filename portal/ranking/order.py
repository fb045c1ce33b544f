"""The rule that orders a board, defined once.

Boards of profiles that are ranked by speed go by the lower end of the score's interval, higher first; the earlier
submission comes first when equal. On practice profiles two copies of one program differ by tens of percent, so a score
orders nothing there. Every entry is correct, and the earlier submission comes first, with its times shown as
indicative.

People go by the number of problems that they solved faster than the reference, then by the number solved, then by
who was there earlier.
"""

from datetime import datetime


def is_better(score_low: float, submitted_at: datetime, *, than: tuple[float, datetime]) -> bool:
    """Whether an author's newer result replaces their standing `than` (lower end, time of submission)."""
    held_low, held_at = than
    return (-score_low, submitted_at) < (-held_low, held_at)


def board_order(*, is_ranked_by_speed: bool, size: str | None = None) -> tuple[str, ...]:
    """The columns of `Standing` by which a board is ordered, at one size or at all together."""
    low = "score_low" if size is None else f"low_{size}"
    return (f"-{low}", "submitted_at", "id") if is_ranked_by_speed else ("submitted_at", "id")


PEOPLE_ORDER = ("-faster", "-solved", "reached_at", "id")
"""The columns of `PersonStanding` by which people are ordered."""
