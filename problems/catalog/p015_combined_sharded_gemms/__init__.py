"""All-gather, two-layer SiLU MLP, reduce-scatter."""
