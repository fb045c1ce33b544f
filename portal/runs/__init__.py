"""Models and their runs: attempts, correct@k, fast_p@k."""
