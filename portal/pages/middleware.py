"""What views let through becomes pages: refusals, a database that is away. Static files go out in one piece."""

import io
import logging
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware
from django.urls import reverse
from django.utils.cache import get_conditional_response
from django.utils.deprecation import MiddlewareMixin
from django.utils.http import quote_etag
from django_htmx.middleware import HtmxDetails
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.responders import StaticFile

from evaluator.hardware.profiles import profiles
from portal.catalog.queries import remember
from portal.charts import figures
from portal.core.database_outage import is_database_away
from portal.core.errors import NotFound, Refusal
from portal.pages.errors import database_away_page, refusal_page, signed_out

_log = logging.getLogger(__name__)


class StaticFileMiddleware(WhiteNoiseMiddleware):  # type: ignore[misc]  # WhiteNoise has no types
    """WhiteNoise for a server with an event loop, which would read a file to its end in small steps, with a warning.

    The largest file has about a megabyte.
    """

    @staticmethod
    def serve(static_file: StaticFile, request: HttpRequest) -> HttpResponse:
        """The file, or what WhiteNoise says instead of it (not modified, a range, a redirect)."""
        found = static_file.get_response(request.method, request.META)
        with found.file or io.BytesIO() as file:
            response = HttpResponse(file.read(), status=int(found.status))
        del response["Content-Type"]
        for name, value in found.headers:
            response[name] = value
        return response


class CompressionMiddleware(GZipMiddleware):
    """Django's gzip, for what is text: it pads pages by a random length, so that no length tells a token of theirs."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Compress text in one piece; files and streams go out as they are."""
        kind = response.get("Content-Type", "").partition(";")[0]
        is_text = kind.startswith("text/") or kind.endswith(("json", "xml"))
        return super().process_response(request, response) if is_text and not response.streaming else response


class PermissionsPolicyMiddleware(MiddlewareMixin):
    """Says what no page of ours needs, so that nothing that got into one could ask for it. Passkeys stay ours alone."""

    _POLICY = ", ".join(
        [
            *(f"{name}=()" for name in ("camera", "geolocation", "microphone", "payment", "usb", "serial", "midi")),
            "publickey-credentials-create=(self)",
            "publickey-credentials-get=(self)",
        ]
    )

    def process_response(self, _request: HttpRequest, response: HttpResponse) -> HttpResponse:
        response["Permissions-Policy"] = self._POLICY
        return response


class HardwareMiddleware(MiddlewareMixin):
    """Keeps the hardware that a reader chooses on a page, or submits to, for the pages that they open next.

    A link that leads here from another page or site chooses nothing: only the page's own links and form do.
    """

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        came_from = urlsplit(request.headers.get("Referer", ""))
        if came_from.path == request.path and response.status_code < 400:
            # What stood in the address before was chosen, if at all, when it was put there.
            before = "" if request.method == "POST" else QueryDict(came_from.query).get("profile", "")
            chosen = (request.POST if request.method == "POST" else request.GET).get("profile", "")
            if chosen in profiles() and chosen != before:
                remember(response, chosen, is_secure=settings.SESSION_COOKIE_SECURE)
        return response


class FigureMiddleware(MiddlewareMixin):
    """Answers `?figure=NAME` on any page with that chart of it as Plotly's figure, or as a file to keep (`as=html`).

    With the figure's digest in the address, browsers keep it for good: another chart has another address.
    """

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        is_page = response.status_code == 200 and response.get("Content-Type", "").startswith("text/html")
        if figures.ASK not in request.GET or not is_page or response.has_header("Content-Disposition"):
            return response
        remedy = f"Open {request.path} and touch one of its charts, or leave {figures.ASK} out."
        text = request.GET[figures.ASK]
        return refusal_page(request, NotFound(figures.ASK, text, f"This page has no chart {text[:60]!r}.", remedy))

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """The figure that a page's template came to."""
        if not isinstance(exception, figures.FigureAsked):
            return None
        name = figures.digest(exception.chart)
        etag = quote_etag(name)
        response = get_conditional_response(request, etag=etag)
        if response is None and request.GET.get("as") == "html":
            response = HttpResponse(figures.figure_file(exception.chart, exception.label))
            response["Content-Disposition"] = f'attachment; filename="pkb-{name}.html"'
        elif response is None:
            response = HttpResponse(figures.figure_json(exception.chart), content_type="application/json")
        lasts = "max-age=31536000, immutable" if request.GET.get("digest") == name else "no-cache"
        response["ETag"], response["Cache-Control"] = etag, f"private, {lasts}"
        return response


class RefusalMiddleware(MiddlewareMixin):
    """Shows the designed page for a refused request, with the sentence that says what to do instead.

    While the database is away it shows a page with 503 and Retry-After, and logs a line in place of a traceback.

    A script whose reader is signed out gets 401 with a link in place of the page where one signs in: that page's form
    belongs into no other.
    """

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        if HtmxDetails(request) and urlsplit(response.get("Location", "")).path == reverse(settings.LOGIN_URL):
            return signed_out(request)
        return response

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """The page for a refusal, or while the database is away; None leaves any other exception to Django."""
        if isinstance(exception, Refusal):
            return refusal_page(request, exception)
        if is_database_away(exception):
            _log.warning("the database does not respond: %s", str(exception).partition("\n")[0])
            return database_away_page(request)
        return None
