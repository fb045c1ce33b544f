"""All-gather of K-sharded A + GEMM."""
