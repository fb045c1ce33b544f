"""All-gather along dimension 0."""
