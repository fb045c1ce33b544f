"""What several problems share: their draws, programs and parts of specs."""
