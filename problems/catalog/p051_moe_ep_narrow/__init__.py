"""Mixture-of-experts layers in groups, fewer experts than ranks."""
