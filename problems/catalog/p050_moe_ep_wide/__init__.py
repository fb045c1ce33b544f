"""A mixture-of-experts layer, two experts per rank."""
