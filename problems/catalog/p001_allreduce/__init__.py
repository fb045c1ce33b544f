"""All-reduce (sum) of one matrix."""
