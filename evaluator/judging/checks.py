"""The judge's checks by name. Tests switch each one off and see that a cheat then passes.

No request can switch a check off: it is a setting of a judge that a test starts. The report names the checks that
were off.
"""

from enum import StrEnum


class Check(StrEnum):
    """A check of the judge against cheats."""

    FRESH_INPUTS = "new inputs for every call"
    NEAR_INPUTS = "calls in which only a few elements are new"
    REGIMES = "calls whose inputs differ in kind from those of timed calls"
    SKEWED_STARTS = "calls in which ranks start at different times"
    VALUES = "values compared"
    EVERY_RANK = "every rank compared"
    TIMED_CALLS = "timed calls compared"
    FINGERPRINT = "fingerprint at the end of the call compared with the outputs taken"
    POISON = "output buffers filled with poison"
    INPUTS = "inputs compared after the call"
    EMPTY = "times compared with those of empty calls"
    IDLE = "processor time of the submission while the reference is timed"
    FLOOR = "times compared with the roofline"
    THROTTLING = "GPUs that heat or a power limit slowed"
    COLLECTIVES = "library collectives counted"
    SECOND_GROUP = "a second worker group"


NOTHING_OFF: frozenset[Check] = frozenset()
