"""Results that were judged elsewhere and ship with the problems: kernels and runs of models, all marked.

Whole reports are in `NAME.reports.xz`, one per line as JSON; a report's `evaluation_id` is the key of its evaluation.
Files beside it say whose programs they are about.
"""
