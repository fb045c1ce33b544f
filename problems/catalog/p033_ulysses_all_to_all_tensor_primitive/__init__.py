"""All-to-all that cuts one dimension and joins another."""
