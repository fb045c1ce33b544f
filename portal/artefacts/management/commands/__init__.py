"""`manage.py` commands of runs."""
