"""The site's settings for tests: the embedded installation with a data folder and key of its own.

Tests import the real settings; only what must differ between two test runs at once is set here, before they load.
"""

import atexit
import os
import shutil
import tempfile

os.environ.setdefault("PKB_SECRET_KEY", "for-tests-only")
if "PKB_DATA_DIR" not in os.environ:
    # Child processes inherit the variable, so only the process that made the folder removes it.
    os.environ["PKB_DATA_DIR"] = tempfile.mkdtemp(prefix="pkb-tests-")
    atexit.register(shutil.rmtree, os.environ["PKB_DATA_DIR"], ignore_errors=True)

from portal.settings import *  # noqa: F403  settings are read when the environment is complete
