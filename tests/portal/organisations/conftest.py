"""Vendors as programs are, as in the tests of runs."""

from tests.portal.runs.conftest import _quick, alices, anonymous, bobs, client_of  # noqa: F401 - fixtures
