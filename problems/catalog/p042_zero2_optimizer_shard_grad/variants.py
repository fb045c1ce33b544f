"""Programs that must pass and programs that must fail."""

from problems.families.zero_step_variants import HONEST, MUTANTS, NARROW

__all__ = ("HONEST", "MUTANTS", "NARROW")
