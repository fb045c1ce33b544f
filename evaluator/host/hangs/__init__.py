"""Why ranks stand still or ended: stacks and collectives as they noted them, incidents, and what to tell the author."""
