"""Every write to models, runs and attempts."""

from portal.runs.actions.attempt_intake import BulkResult, LineResult, add_attempt, add_lines
from portal.runs.actions.creating import RunDeclaration, create_run, decide, publish_run
from portal.runs.actions.importing import ImportPreview, import_tree, read_tree
