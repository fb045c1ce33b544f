"""Input-channel-parallel 3-D convolution + all-reduce."""
