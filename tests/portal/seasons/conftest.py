"""Seasons on cpux2 and on eight GPUs, around the present moment."""

from datetime import timedelta

import pytest

from portal.seasons import actions
from portal.seasons.models import Season, definition_of


@pytest.fixture(autouse=True)
def _plain_assets(settings):
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}


@pytest.fixture
def define(db, now, operator):
    """Make a season that opened an hour ago and closes in one, with changes."""

    def defined(**changes) -> Season:
        values = {
            "slug": "winter",
            "title": "Winter",
            "profile": "cpux2",
            "problems": ["allreduce", "allgather"],
            "opens_at": now - timedelta(hours=1),
            "closes_at": now + timedelta(hours=1),
        }
        return actions.define(definition_of(values | changes), now=now - timedelta(hours=2), by=operator)

    return defined


@pytest.fixture
def close(now):
    """Let a season have closed `seconds` ago, as the clock would."""

    def closed(season, *, seconds=1.0):
        Season.objects.filter(pk=season.pk).update(closes_at=now - timedelta(seconds=seconds))
        season.refresh_from_db()
        return season

    return closed
