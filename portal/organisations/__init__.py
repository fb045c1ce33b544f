"""The pages of organisations: their people, what they use, their webhooks."""
