"""The versioned JSON API: the same actions and queries as the pages."""
