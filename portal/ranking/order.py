"""The rule that orders a board, in one place.

Boards of profiles that are ranked by speed go by the lower end of the score's interval, higher first; the earlier
submission comes first when equal. On practice profiles two copies of one program differ by tens of percent, so a
score orders nothing there: every entry is correct, and the earlier submission comes first, with its times shown as
indicative.
"""

from datetime import datetime


def is_better(score_low: float, submitted_at: datetime, *, than: tuple[float, datetime]) -> bool:
    """Whether an author's newer result replaces their standing `than` (lower end, time of submission)."""
    held_low, held_at = than
    return (-score_low, submitted_at) < (-held_low, held_at)


def board_order(*, is_ranked_by_speed: bool) -> tuple[str, ...]:
    """The columns of `Standing` by which a board is ordered."""
    return ("-score_low", "submitted_at", "id") if is_ranked_by_speed else ("submitted_at", "id")
