"""What a machine runs that judges for a site: messages in, judge, reports out. No Django, no torch, no database."""
