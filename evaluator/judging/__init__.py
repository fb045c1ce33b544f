"""Pure judging: evidence in, decision out. No files, processes, clocks or torch."""
