"""Blockwise FP8 quantisation + all-gather."""
