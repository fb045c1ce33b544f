"""All-gather of shares of different lengths."""
