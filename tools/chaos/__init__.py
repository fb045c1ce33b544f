"""A site under load while everything it consists of dies, lies and comes back."""
