"""Row 17, reference resubmitted: imports the problem's own reference, which is not there.

Problem: allreduce
Mode: check
Accepted: IMPORT_ERROR, RUNTIME_ERROR, FORBIDDEN
"""

from problems.catalog.p001_allreduce.reference import solution  # noqa: F401
