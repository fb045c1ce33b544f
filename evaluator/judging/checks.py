"""The judge's checks by name, so that the tests can switch each one off and see that a cheat then gets through.

No request reaches them: they are a setting of a judge that a test makes, and the report says which were off.
"""

from enum import StrEnum


class Check(StrEnum):
    """Something that the judge does against cheats."""

    FRESH_INPUTS = "new contents for every call"
    NEAR_CONTENTS = "calls in which only a few elements are new"
    REGIMES = "calls whose contents differ from those of timed calls"
    SKEWED_STARTS = "calls in which ranks start at different times"
    VALUES = "values compared"
    EVERY_RANK = "every rank compared"
    TIMED_CALLS = "timed calls compared"
    FINGERPRINT = "fingerprint at return held against what was taken"
    POISON = "output slots poisoned"
    INPUTS = "inputs compared after the call"
    EMPTY = "times held against those of empty calls"
    IDLE = "processor time of the submission while the reference is timed"
    FLOOR = "times held against the roofline"
    THROTTLING = "GPUs that were held back by heat or power"
    COLLECTIVES = "library collectives counted"
    SECOND_GROUP = "a second worker group"


NOTHING_OFF: frozenset[Check] = frozenset()
