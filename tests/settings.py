"""The site's settings for tests: the embedded installation with a data folder and key of its own.

Tests import the real settings; only what must differ between two test runs at once is set here, before they load.
"""

import atexit
import os
import shutil
import tempfile

os.environ.setdefault("PKB_SECRET_KEY", "for-tests-only")
_worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
if "PKB_DATA_DIR" not in os.environ or os.environ.get("PKB_TEST_WORKER", _worker) != _worker:
    # Child processes inherit both variables, so only the worker that made the folder uses and removes it.
    os.environ["PKB_TEST_WORKER"] = _worker
    os.environ["PKB_DATA_DIR"] = tempfile.mkdtemp(prefix="pkb-tests-")
    atexit.register(shutil.rmtree, os.environ["PKB_DATA_DIR"], ignore_errors=True)

from portal.settings import *  # noqa: E402, F403  settings are read when the environment is complete
