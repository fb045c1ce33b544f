"""One evaluation, from request to report, stage by stage (`evaluation.py` is the contents page)."""
