"""All-reduce mean of block-wise int8-quantised gradients."""
