"""How what a program returned becomes outputs, and how these are compared with the expected ones."""
