"""Programs that must pass and programs that must fail."""

from problems.zero_step_variants import HONEST, MUTANTS

__all__ = ("HONEST", "MUTANTS")
