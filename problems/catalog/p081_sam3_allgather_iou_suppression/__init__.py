"""All-gather of object masks and suppression of duplicates."""
