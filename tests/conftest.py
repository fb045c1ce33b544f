"""Settings that every test run starts from."""

import os

os.environ.setdefault("PKB_SECRET_KEY", "for-tests-only")
