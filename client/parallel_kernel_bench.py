"""What verifiers imports for `vf-eval parallel-kernel-bench`: taskset, environment and harness of pkb-client."""

from pkb.verifiers_environment import Chat, KernelEnv, Kernels

__all__ = ["Chat", "KernelEnv", "Kernels"]
