"""The judge's own process: requests in, verdicts out. No torch, and no data from the sandbox is trusted here."""

from evaluator.host.judge import Judge
from evaluator.host.settings import JudgeSettings, SandboxChoice

__all__ = ["Judge", "JudgeSettings", "SandboxChoice"]
