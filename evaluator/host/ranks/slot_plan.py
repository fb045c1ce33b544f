"""What all worker groups of a slot have in common."""

from dataclasses import dataclass

from evaluator.hardware.profiles import Profile
from evaluator.host.sandbox.bubblewrap import Confinement
from evaluator.host.sandbox.cpu_sets import Shares
from evaluator.host.settings import JudgeSettings


@dataclass(frozen=True, kw_only=True)
class SlotPlan:
    """How a slot runs submissions: for which profile, how confined, on which processors and GPUs."""

    profile: Profile
    settings: JudgeSettings
    confinement: Confinement
    shares: Shares
    gpus: tuple[int, ...] = ()
