"""A mixture-of-experts layer, eight experts over all ranks."""
