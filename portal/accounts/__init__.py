"""Sign-in, API tokens and quotas."""
