"""Blockwise dequantisation + all-to-all."""
