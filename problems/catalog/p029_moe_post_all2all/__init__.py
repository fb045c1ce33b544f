"""MoE combine (regroup by source, all-to-all, weighted unpermute)."""
