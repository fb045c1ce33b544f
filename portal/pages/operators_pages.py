"""Privacy, terms, and the security contact: the pages that every operator is responsible for."""

from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from portal.catalog.markdown import render as markdown
from portal.core.errors import NotFound

SECURITY_TXT_DAYS = 180
"""RFC 9116 wants a date after which nobody trusts the file; it moves on for as long as the site answers."""


@require_safe
def words(request: HttpRequest, name: str, title: str) -> HttpResponse:
    """The operator's words, a file in the folder `pages` of the site's data; without one, the site's own."""
    folders = (settings.DATA_DIR / "pages", Path(settings.BASE_DIR, "templates", "words"))
    file = next(path for folder in folders if (path := folder / f"{name}.md").is_file())
    context = {"title": title, "text": markdown(file.read_text(encoding="utf-8"))}
    return render(request, "operators_page.html", context)


@require_safe
def security_txt(_request: HttpRequest) -> HttpResponse:
    """RFC 9116: the contact for security reports."""
    if not settings.SECURITY_CONTACT:
        remedy = "Its operator can set one with PKB_SECURITY_CONTACT."
        raise NotFound("", "", "This site has no contact for security reports.", remedy)
    expires = timezone.now().replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=SECURITY_TXT_DAYS)
    lines = (
        f"Contact: {settings.SECURITY_CONTACT}",
        f"Expires: {expires:%Y-%m-%dT%H:%M:%SZ}",
        "Preferred-Languages: en",
        f"Canonical: {settings.SITE_URL}{reverse('security-txt')}",
    )
    return HttpResponse("\n".join(lines) + "\n", content_type="text/plain; charset=utf-8")
