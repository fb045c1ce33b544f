"""Starting, observing and logging processes, for all parts of the host."""
