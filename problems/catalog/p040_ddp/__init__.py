"""Data-parallel training step with Adam."""
