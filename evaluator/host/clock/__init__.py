"""The clock of a call, which runs on the host in its own process."""
