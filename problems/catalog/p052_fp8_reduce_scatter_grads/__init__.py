"""Reduce-scatter (mean) of FP8-rounded gradients with amax history."""
