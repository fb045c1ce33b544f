"""Ring attention backward with data-parallel averaging."""
