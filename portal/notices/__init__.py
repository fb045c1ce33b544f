"""What a person wants to hear of: their channels (Slack, Discord, a signed webhook, mail), and what was sent there."""
