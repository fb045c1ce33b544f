"""Measurements that `make bench` prints; none of them is a test."""
