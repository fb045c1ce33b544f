"""Gated DeltaNet with context parallelism through head all-to-all."""
