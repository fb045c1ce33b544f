"""A mixture-of-experts layer, one expert per rank."""
