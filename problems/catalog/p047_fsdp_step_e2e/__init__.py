"""Fully sharded data-parallel training step with AdamW."""
