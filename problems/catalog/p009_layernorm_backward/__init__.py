"""LayerNorm weight and bias gradients with all-reduce."""
