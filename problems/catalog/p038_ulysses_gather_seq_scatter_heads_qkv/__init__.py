"""From positions to heads for a fused query, key and value projection."""
