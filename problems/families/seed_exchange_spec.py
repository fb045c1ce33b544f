"""What the specs of problems 65 and 66 have in common: the regimes of who exchanges which rows. No torch."""

from problems.spec.ranges import Among, Whole
from problems.spec.schema import Regime

ALL_STAY, ONE_STAYS = "all_stay", "one_stays"

EXCHANGES = (
    Regime(
        name="nothing_travels",
        words="all rows stay on their rank; or those of one rank alone, and all others' go to the next one of them",
        settings={"all_go": Among(options=(ONE_STAYS, ALL_STAY))},
    ),
    Regime(
        name="all_to_the_next_rank",
        words="all rows of a rank go to the next one, or one of the next three, and none stay",
        settings={"all_go": Whole(low=1, high=3, often=(1,))},
    ),
    Regime(
        name="nearly_runs",
        words="the first and the last id of each piece are as far apart as those of neighbours in a row, and the ids "
        "between are any, or those between in another order",
        settings={"ids": "nearly_runs"},
        apart=("one_seed",),
    ),
)
"""Counts and ids other than in timed calls; counts of a rank add up to T in every call."""
