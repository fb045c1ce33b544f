"""What must hold in the database whatever died and whoever lied: an operator asks for it at any time."""
