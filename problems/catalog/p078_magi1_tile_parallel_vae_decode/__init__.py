"""Tile-parallel decoding of a latent video."""
