"""Invariants of the database that must hold after any failure or forged message; operators can check them any time."""
