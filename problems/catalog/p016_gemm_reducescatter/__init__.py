"""GEMM + reduce-scatter along rows."""
