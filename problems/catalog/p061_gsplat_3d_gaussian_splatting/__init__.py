"""Projection of 3-D Gaussians and their way to the owners of the cameras."""
