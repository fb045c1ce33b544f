"""The `pkb` command and Python client: everything here speaks to the site over HTTP and knows nothing else of ours."""
