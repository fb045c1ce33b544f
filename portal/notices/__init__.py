"""Notices to people: their channels (Slack, Discord, a signed webhook, mail) and the messages sent there."""
