"""The host's side of all ranks: sandbox ranks, which run the submission, and trusted ranks."""
