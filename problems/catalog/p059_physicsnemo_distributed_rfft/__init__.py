"""Distributed 2-D real FFT."""
