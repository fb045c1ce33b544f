"""People, nodes and reports that the site's tests share."""

import hashlib
from datetime import timedelta

import pytest
from django.core.cache import cache
from django.utils import timezone

from evaluator.contract import SlotState
from portal.accounts.models import User
from portal.dispatcher.assign import dispatch_once
from portal.nodes.models import Node, Slot
from problems import registry
from tests.portal.factories import evaluation_of, submit

NODE_KEY = "a key"
"""What the node of these tests proves its messages with."""


@pytest.fixture(autouse=True)
def _quick_passwords(settings):
    """Hashing that takes a quarter of a second, on purpose, is what tests with many people do not need."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture(autouse=True)
def _patient_helpers(monkeypatch):
    """The budget of processor time ends work on strangers' texts here; the clock of a busy machine does not."""
    monkeypatch.setattr("portal.core.helper._PATIENCE", 1000)


@pytest.fixture(autouse=True)
def _nothing_cached():
    cache.clear()


@pytest.fixture
def alice(db):
    return User.objects.create_user("alice", password="a long pass phrase")


@pytest.fixture
def bob(db):
    return User.objects.create_user("bob", password="a long pass phrase")


@pytest.fixture
def operator(db):
    return User.objects.create_user("operator", password="a long pass phrase", is_staff=True)


@pytest.fixture
def now():
    return timezone.now()


@pytest.fixture
def later(now):
    """A moment so many seconds after `now`."""
    return lambda seconds: now + timedelta(seconds=seconds)


@pytest.fixture
def node(db, now):
    """A node that was just heard from, with one free slot for cpux2 and every problem installed."""
    node = Node.objects.create(
        name="alpha",
        key_digest=hashlib.sha256(NODE_KEY.encode()).hexdigest(),
        seen_at=now,
        sandbox="full",
        backends=["pytorch"],
        revisions={problem.slug: registry.revision(problem.slug) for problem in registry.problems()},
    )
    Slot.objects.create(node=node, index=0, profile="cpux2", state=SlotState.FREE)
    return node


@pytest.fixture
def exports_here(settings, tmp_path):
    """The folder of the files of public data, empty."""
    settings.EXPORT_DIR = tmp_path / "exports"
    return settings.EXPORT_DIR


def keep(node, assignment, *, valid_for_s):
    """Replaces the broker for assignments."""


@pytest.fixture
def leased(alice, node, now):
    """An evaluation that was sent to `alpha`."""
    evaluation = evaluation_of(submit(alice))
    dispatch_once(now, send=keep)
    evaluation.refresh_from_db()
    return evaluation
