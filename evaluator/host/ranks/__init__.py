"""The ranks as the host sees them: those of the submission in their sandbox, and the trusted oracle ranks."""
