"""Confinement: bubblewrap, system call filter, control groups, processors, host users, and what this machine has."""
