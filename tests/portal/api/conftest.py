"""Callers of the API as programs are: a client with a token of its owner's."""

from datetime import timedelta

import pytest
from django.core.cache import cache
from rest_framework.test import APIClient

from portal.accounts import actions
from portal.accounts.models import ApiToken


@pytest.fixture(autouse=True)
def _fresh_rates():
    """Each test starts with unused rates: they are counted per address, and every test calls from the same one."""
    cache.clear()


@pytest.fixture
def anonymous(db):
    return APIClient()


@pytest.fixture
def client_of():
    """A client with a new token of a user."""

    def make(user, *scopes: str) -> APIClient:
        _, secret = actions.create_token(user, name="tests", scopes=scopes or ("read", "submit"), lifetime_days=1)
        client = APIClient()
        client.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
        return client

    return make


@pytest.fixture
def alices(alice, client_of):
    return client_of(alice)


@pytest.fixture
def bobs(bob, client_of):
    return client_of(bob)


@pytest.fixture
def expired(alice, client_of, now):
    """A client whose token ended a day ago."""
    client = client_of(alice)
    ApiToken.objects.update(expires_at=now - timedelta(days=1))
    return client
