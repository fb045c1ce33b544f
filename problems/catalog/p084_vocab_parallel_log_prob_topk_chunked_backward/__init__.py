"""Backward of chunked token log-probabilities under top-k/top-p, logits split over the vocabulary."""
