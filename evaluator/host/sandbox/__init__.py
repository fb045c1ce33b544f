"""Confinement: bubblewrap, system call filter, control groups, processors, host users; and what of it holds here."""
