"""What the specs of problems 65 and 66 have in common: the regimes of who exchanges which rows. No torch."""

from problems.spec.schema import Regime

EXCHANGES = (
    Regime(name="nothing_travels", words="all rows stay on their rank", settings={"all_go": 0}),
    Regime(
        name="all_to_the_next_rank",
        words="all rows of a rank go to the next one, and none stay",
        settings={"all_go": 1},
    ),
)
"""Counts and ids other than in timed calls; counts of a rank add up to T in every call."""
