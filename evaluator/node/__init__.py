"""The program of a machine that judges for a site: messages in, reports out. No Django, no torch, no database."""
