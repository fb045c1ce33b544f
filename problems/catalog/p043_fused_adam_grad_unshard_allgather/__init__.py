"""Adam on a parameter shard, then all-gather."""
