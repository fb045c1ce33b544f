"""Training step with a sharded optimizer (ZeRO-2)."""
