"""How the arguments of a call are drawn, from a secret key."""
