"""The clock of a call: it runs on the host, in a process of its own."""
