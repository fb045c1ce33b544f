"""Runs programs of a problem on ranks, and makes wrong ones: for tests, `make problem` and calibration."""
