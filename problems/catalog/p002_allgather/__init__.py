"""All-gather of one matrix into a stack."""
