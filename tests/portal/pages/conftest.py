"""Pages as the test client sees them."""

import pytest

from tests.portal.pages import scenes


@pytest.fixture(autouse=True)
def quick_pages(settings):
    """Static addresses without the manifest that only `collectstatic` writes."""
    settings.STORAGES = {
        **settings.STORAGES,
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    }


@pytest.fixture
def alice(db):
    return scenes.person("alice")


@pytest.fixture
def bob(db):
    return scenes.person("bob")


@pytest.fixture
def local(db):
    return scenes.node()


@pytest.fixture
def as_alice(client, alice):
    client.force_login(alice)
    return client
