"""Column-split GEMM + all-gather of the columns."""
