"""`utils` as submissions know it: cuda_helpers, triton_utils."""
