"""`python -m pkb`."""

from .cli import main

main()
