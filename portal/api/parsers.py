"""How request bodies are read: JSON as RFC 8259 has it, or a multipart form, within a limit."""

import json
from collections.abc import Mapping
from typing import IO, Any

from django.conf import settings
from rest_framework import exceptions, parsers
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from portal.core.errors import Refusal

_Context = Mapping[str, Any] | None


def require_length(request: Request) -> None:
    """Refuse a body that comes in chunks: the server would see none at all, and name fields missing that were sent."""
    if "chunked" in request.headers.get("Transfer-Encoding", "").lower() and not request.headers.get("Content-Length"):
        message = "The body came in chunks, without a Content-Length."
        raise Refusal("Content-Length", "", message, "Send it in one piece, with a Content-Length.", status=411)


def _check_size(context: _Context, *, limit: int | None = None, remedy: str = "") -> None:
    """Refuse a body that is too large before reading it (a body without a declared length is empty in WSGI)."""
    request = (context or {}).get("request")
    length = int(request.META.get("CONTENT_LENGTH") or 0) if request is not None else 0
    most: int = limit or settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    if length > most:
        remedy = remedy or f"Send sources of at most {settings.SUBMISSION_MAX_BYTES // 1024} KB in all."
        raise Refusal("", f"{length} bytes", f"The body has {length} bytes, more than {most}.", remedy, status=413)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON value")


class JSONParser(parsers.BaseParser):
    """JSON in UTF-8; malformed, too deep or non-finite values are the sender's error, never ours."""

    media_type = "application/json"

    def parse(self, stream: IO[Any], media_type: str | None = None, parser_context: _Context = None) -> Any:
        """The decoded body; raises ParseError with the location of the first error."""
        _check_size(parser_context)
        try:
            return json.loads(stream.read().decode("utf-8"), parse_constant=_no_constant)
        except UnicodeDecodeError as error:
            raise exceptions.ParseError(f"The body is not UTF-8: byte {error.start} is wrong.") from error
        except ValueError as error:
            raise exceptions.ParseError(f"The body is not JSON: {error}.") from error
        except RecursionError as error:
            raise exceptions.ParseError("The body is nested too deeply.") from error


class MultiPartParser(parsers.MultiPartParser):
    """A form with an uploaded file."""

    limit: int | None = None
    """Bytes of the body; None for the site's own limit."""

    def parse(self, stream: IO[Any], media_type: str | None = None, parser_context: _Context = None) -> Any:
        """The fields and files of the form; raises ParseError where it is broken."""
        _check_size(parser_context, limit=self.limit)
        return super().parse(stream, media_type, parser_context)


class ArchiveForm(MultiPartParser):
    """A form with an archive of many sources, which is kept in a file rather than in memory."""

    limit = settings.BULK_MAX_BYTES


class _Stream(parsers.BaseParser):
    """A body that the view reads piece by piece instead of holding it in memory."""

    def parse(self, stream: IO[Any], media_type: str | None = None, parser_context: _Context = None) -> Any:
        _check_size(parser_context, limit=settings.BULK_MAX_BYTES, remedy="Send it in several parts.")
        return stream


class LinesStream(_Stream):
    media_type = "application/x-ndjson"


class ArchiveStream(_Stream):
    media_type = "application/zip"


class JSONAlways(DefaultContentNegotiation):
    """Answers are JSON whatever `Accept` says, so that a browser or curl gets an answer instead of a 406."""

    def select_renderer(
        self, request: Request, renderers: Any, format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        return renderers[0], renderers[0].media_type
