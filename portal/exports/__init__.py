"""Public data: tables as files, and the data set."""
