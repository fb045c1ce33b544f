"""`utils` as submissions know it: cuda_helpers, parallelkittens_runtime, triton_utils."""
