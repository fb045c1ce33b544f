"""People and a node, as in the tests of pages."""

from tests.portal.pages.conftest import alice, bob, local, quick_pages  # noqa: F401 - fixtures
