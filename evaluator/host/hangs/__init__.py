"""Why ranks hang or ended: their stacks and collectives, incidents, and the findings for the author."""
