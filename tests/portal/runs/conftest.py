"""Vendors as programs are: clients with tokens for runs."""

import pytest
from django.core.cache import cache
from rest_framework.test import APIClient

from portal.accounts import actions


@pytest.fixture(autouse=True)
def _quick(settings):
    cache.clear()
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}


@pytest.fixture
def anonymous(db):
    return APIClient()


def _client(user, *scopes):
    _, secret = actions.create_token(user, name="runs", scopes=scopes or ("runs:read", "runs:write"), lifetime_days=1)
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
    return client


@pytest.fixture
def client_of(db):
    return _client


@pytest.fixture
def alices(alice):
    return _client(alice)


@pytest.fixture
def bobs(bob):
    return _client(bob)
