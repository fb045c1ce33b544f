"""Messages to receivers outside: events of runs to webhooks of organisations, and notices to channels of people."""
