"""Distributed inverse 2-D real FFT."""
