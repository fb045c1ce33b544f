"""Token-weighted global loss, forward and backward scalars."""
