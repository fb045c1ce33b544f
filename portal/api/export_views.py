"""Public data as files, and the attempts of a run."""

import uuid
from collections.abc import Iterator
from threading import BoundedSemaphore
from typing import IO, Self

from asgiref.sync import sync_to_async
from django.http import StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.utils.http import http_date
from rest_framework.request import Request
from rest_framework.throttling import AnonRateThrottle

from portal.accounts.models import TokenScope
from portal.api import run_inputs
from portal.api.base import Resource, file_of, operation
from portal.core.errors import TooMany
from portal.exports import files, tables
from portal.runs import queries
from portal.seasons import queries as seasons
from portal.tabular.tables import MEDIA_TYPES, Table, written

_ZIP = "application/zip"
_TABLE_FILE = file_of(*(media_type.partition(";")[0] for media_type in MEDIA_TYPES.values()))
_CHUNK = 256 * 1024
DOWNLOADS = 8
# A download keeps a thread and perhaps a database connection for as long as its reader takes.
_downloading = BoundedSemaphore(DOWNLOADS)


class ExportRate(AnonRateThrottle):
    """How often a caller without a token may fetch a whole table."""

    scope = "exports"


class _Download:
    """Pieces of a file, and the download slot that it occupies: released when the response is closed.

    Each piece is made when the reader has taken the one before.
    """

    def __init__(self, pieces: Iterator[bytes]) -> None:
        if not _downloading.acquire(blocking=False):
            message = f"{DOWNLOADS} other downloads are running, which is the limit."
            raise TooMany("", "", message, "Try again in a few seconds.", retry_after_s=5)
        self._pieces = pieces
        self._is_open = True

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        piece = await sync_to_async(lambda: next(self._pieces, None))()
        if piece is None:
            raise StopAsyncIteration
        return piece

    def close(self) -> None:
        """Release the download slot; Django calls it when the response has been sent or its reader has gone."""
        if self._is_open:
            self._is_open = False
            _downloading.release()


def _sent(pieces: Iterator[bytes], *, name: str, media_type: str) -> StreamingHttpResponse:
    response = StreamingHttpResponse(_Download(pieces), content_type=media_type)
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


def _written(table: Table, name: str, format_name: str) -> StreamingHttpResponse:
    pieces = written(table, format=format_name)
    return _sent(pieces, name=f"{name}.{format_name}", media_type=MEDIA_TYPES[format_name])


def _kept_file(name: str, *, media_type: str) -> StreamingHttpResponse:
    """A file that was made beforehand; `Last-Modified` says as of when it is."""
    file, made_at = files.opened(name)
    response = _sent(_pieces(file), name=name, media_type=media_type)
    response["Content-Length"] = str(file.seek(0, 2))
    file.seek(0)
    response["Last-Modified"] = http_date(made_at.timestamp())
    return response


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        while piece := file.read(_CHUNK):
            yield piece


class _Exports(Resource):
    """Public data: open to everybody, as often as `ExportRate` allows."""

    tag = "Exports"
    throttle_classes = (AnonRateThrottle, ExportRate)


class RunExport(_Exports):
    read_scope = TokenScope.RUNS_READ

    @operation("exportRun", "Export a run's attempts", _TABLE_FILE, query=run_inputs.FormatQuery)
    def retrieve(self, request: Request, run_id: uuid.UUID) -> HttpResponseBase:
        """One row per attempt, by problem, sample and step."""
        table = tables.attempts_of(queries.get_run(request.user, run_id))
        return _written(table, table.name, self.query["format"])


class SeasonPeople(_Exports):
    @operation("exportSeasonPeople", "Export a season's people by problems", _TABLE_FILE, query=run_inputs.FormatQuery)
    def retrieve(self, request: Request, slug: str) -> HttpResponseBase:
        """One row per person and problem that they have tried, once the season shows what others have reached."""
        season = seasons.get_season(slug, request.user)
        seasons.require_board(season, request.user, timezone.now())
        return _written(seasons.people_table(season), f"{slug}-people", self.query["format"])


class PublicData(_Exports):
    @operation("exportTable", "Export a table of public data", _TABLE_FILE, query=run_inputs.FormatQuery)
    def table(self, _request: Request, table: str) -> HttpResponseBase:
        """Leaderboards, models, runs, attempts, evaluations, season entries: public ones, about 10 minutes old."""
        format_name = self.query["format"]
        return _kept_file(f"{tables.get_table(table).name}.{format_name}", media_type=MEDIA_TYPES[format_name])

    @operation("exportDataset", "Export all public data", file_of(_ZIP))
    def dataset(self, _request: Request) -> HttpResponseBase:
        """Every table as JSON Lines, the problems, a schema and a data card; about 10 minutes old."""
        return _kept_file(files.DATASET, media_type=_ZIP)
