"""The judge's own process: requests in, verdicts out. No torch, and nothing from the sandbox is believed here."""

from evaluator.host.judge import Judge
from evaluator.host.settings import JudgeSettings, SandboxChoice

__all__ = ["Judge", "JudgeSettings", "SandboxChoice"]
