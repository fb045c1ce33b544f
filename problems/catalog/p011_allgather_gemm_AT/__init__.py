"""All-gather of K-sharded A in transposed layout + GEMM."""
