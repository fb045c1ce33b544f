"""Kimi Delta Attention with context and tensor parallelism."""
