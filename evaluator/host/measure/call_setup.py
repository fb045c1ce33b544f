"""What all calls of one worker group at one size have in common."""

from dataclasses import dataclass

from evaluator.host.measure.call_checks import CallChecks
from evaluator.host.measure.evidence import SizeEvidence
from evaluator.host.measure.group_setup import GroupSetup
from evaluator.host.measure.head_start import HeadStart
from evaluator.host.ranks.oracle_group import OpenedSize


@dataclass(frozen=True, kw_only=True)
class CallSetup:
    """What all calls of one worker group at one size have in common.

    Attributes:
        group_setup: what they share with its calls at other sizes.
        opened: the size as the oracle ranks have opened it.
        at_size: takes what the calls show.
        checks: makes findings at this size.
        head_start: learns from the calls how long ranks may queue work.
        reference_s: the time of a call of the reference.
    """

    group_setup: GroupSetup
    opened: OpenedSize
    at_size: SizeEvidence
    checks: CallChecks
    head_start: HeadStart
    reference_s: float
