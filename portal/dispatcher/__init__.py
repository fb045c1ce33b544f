"""The queue between submissions and nodes: rows are leased to free slots, heartbeats keep leases, lost ones end."""
