"""The site's settings for tests: the embedded installation with a data folder and key of its own.

Tests import the real settings; only what must differ between two test runs at once is set here, before they load.
"""

import os
import tempfile

os.environ.setdefault("PKB_SECRET_KEY", "for-tests-only")
os.environ.setdefault("PKB_DATA_DIR", tempfile.mkdtemp(prefix="pkb-tests-"))

from portal.settings import *  # noqa: F403  settings are read when the environment is complete
