"""Reduce-scatter (mean) followed by RMSNorm."""
