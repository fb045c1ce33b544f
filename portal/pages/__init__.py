"""What belongs to no single app: home, documentation, health, error pages, and refusals shown as pages."""
