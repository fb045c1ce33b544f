"""The machines that judge: registry, heartbeats, slots."""
