"""Row-sharded embedding lookup."""
