"""What operators see and run: metrics, the audit of the database, and the results that ship with the problems."""
