"""The best profile that this machine can judge kernels for, and what it lacks for a better one."""

import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path

from evaluator.errors import EvaluatorError, NodeFailure
from evaluator.hardware import profiles
from evaluator.host.building import what_to_build
from evaluator.host.machine import facts, gpus, nvml

AUTO = "auto"
"""Written in place of a profile: the best one here."""

ON_CPU = "cpux2"

_CUDA_OF_TORCH = re.compile(r"^cuda\b.*=\s*['\"][\d.]+", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The profile chosen, the GPUs that it uses in words, and why it is no better one; "" where nothing is missing."""

    profile: str
    gpu: str = ""
    missing: str = ""

    @property
    def words(self) -> str:
        """For the person who started it."""
        if self.gpu:
            return f"Kernels are judged on {self.gpu}, profile {self.profile}."
        return (
            f"Kernels for GPUs are not judged here: {self.missing}. PyTorch is, on CPU ranks, profile {self.profile}."
        )


def here() -> Choice:
    """The best profile of this machine.

    Several GPUs of a machine file that reach each other serve its largest profile, with multicast off, which every
    machine can. Otherwise all ranks share one GPU.
    """
    try:
        present = gpus.present()
    except EvaluatorError as error:
        return Choice(profile=ON_CPU, missing=str(error))
    if lacks := _lacks(present):
        return Choice(profile=ON_CPU, missing=lacks)
    models = facts.gpu_models()
    own = [profiles.get(name) for name in facts.possible_profiles(models)]
    whole = [each for each in own if each.gpu and not each.multicast and each.peer_access]
    if whole:
        best = max(whole, key=lambda profile: profile.gpus)
        return Choice(profile=best.name, gpu=f"{best.gpus} {best.gpu}")
    return _shared()


def _shared() -> Choice:
    profile = min((each for each in profiles.profiles().values() if each.shares_gpu), key=lambda each: each.world_size)
    try:
        gpus.capability(profile)
        gpus.refuse_small(profile)
        model = gpus.shared_model(profile)
    except EvaluatorError as error:
        return Choice(profile=ON_CPU, missing=str(error))
    return Choice(profile=profile.name, gpu=f"one {model} that {profile.world_size} ranks share")


def _lacks(present: tuple[int, ...]) -> str:
    """What is missing for kernels; empty where nothing is."""
    if not present:
        return "there is no NVIDIA GPU (no /dev/nvidia0)"
    if not nvml.read(present):
        return "the NVIDIA driver does not answer (try nvidia-smi), or the package nvidia-ml-py is not installed"
    try:
        what_to_build.toolchain()
    except NodeFailure as error:
        return f"{error}; install the CUDA tool kit and g++"
    torch = importlib.util.find_spec("torch")
    version = Path(torch.origin).with_name("version.py") if torch is not None and torch.origin else None
    if version is None or not version.is_file() or not _CUDA_OF_TORCH.search(version.read_text(encoding="utf-8")):
        return "the installed torch has no CUDA; install one that has, without PKB_TORCH_INDEX"
    return ""
