"""The untrusted side: the only code of ours that shares a process with a submission. Kept as small as possible."""
