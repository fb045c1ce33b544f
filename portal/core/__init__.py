"""What every part of the site stands on: errors, pages of rows, hooks, limits of requests, metrics."""
