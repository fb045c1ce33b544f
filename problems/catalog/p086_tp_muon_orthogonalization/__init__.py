"""Tensor-parallel Muon orthogonalisation."""
