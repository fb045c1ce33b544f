"""What the specs of problems 65 and 66 have in common: the regimes of who exchanges which rows. No torch."""

from problems.spec.schema import Regime

EXCHANGES = (
    Regime(name="nothing_travels", words="all rows stay on their rank", settings={"all_go": 0}),
    Regime(
        name="all_to_the_next_rank",
        words="all rows of a rank go to the next one, and none stay",
        settings={"all_go": 1},
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
