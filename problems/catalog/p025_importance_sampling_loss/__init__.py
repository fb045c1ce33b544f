"""Importance-sampling policy-gradient loss with LM head."""
