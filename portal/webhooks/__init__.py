"""Webhooks of organisations: keeping them, and delivering the events of runs to them."""
