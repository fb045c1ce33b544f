"""Public data: tables as files, the data set, and single evaluations with what judges them again."""
