"""Context-parallel causal depthwise convolution in zigzag order."""
