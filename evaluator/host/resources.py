"""What a slot has for judging: the same for every evaluation."""

from dataclasses import dataclass

from evaluator.hardware.profiles import Profile
from evaluator.host.clock.call_clock import GateClock
from evaluator.host.sandbox.bubblewrap import Confinement
from evaluator.host.sandbox.cpu_sets import Shares
from evaluator.host.settings import JudgeSettings


@dataclass(frozen=True, kw_only=True)
class Resources:
    """For which profile a slot judges, how confined, on which processors and GPUs, by which clock.

    `clock` is None on CPU profiles, where messages begin and end a call.
    """

    profile: Profile
    settings: JudgeSettings
    confinement: Confinement
    shares: Shares
    gpus: tuple[int, ...] = ()
    clock: GateClock | None = None

    @property
    def second_group_share(self) -> float:
        """The share of a ranked series that a second worker group runs; 0 where there is none."""
        share = self.settings.second_group_share
        return self.profile.timing_policy.second_group_share if share is None else share
