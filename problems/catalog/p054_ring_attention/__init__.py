"""Causal ring attention."""
