"""GEMM + all-reduce."""
