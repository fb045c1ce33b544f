"""Push of sparse embedding rows to their owners."""
