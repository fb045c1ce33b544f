"""RMSNorm over a hidden dimension that is sharded across ranks."""
