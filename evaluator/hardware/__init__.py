"""Profiles as data, without torch: what each machine is, demands and can judge."""
