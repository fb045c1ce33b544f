"""Chunked token log-probabilities under top-k/top-p from vocabulary-parallel logits."""
