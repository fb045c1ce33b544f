"""All-gather of FP8-rounded parameters with amax history."""
