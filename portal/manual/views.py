"""The pages of the manual, and the pictures and data beside them."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from portal.manual.pages import file_at, page_at, sections

_MAX_AGE_S = 600


@require_safe
def manual(request: HttpRequest, address: str) -> HttpResponse:
    """A page, a file, or the way to a page whose address lacks its slash."""
    if (page := page_at(address)) is not None:
        return render(request, "docs/page.html", {"page": page, "sections": sections()})
    if (found := file_at(address)) is not None:
        data, content_type = found
        response = HttpResponse(data, content_type=content_type)
        response["Cache-Control"] = f"public, max-age={_MAX_AGE_S}"
        return response
    if not address.endswith("/") and page_at(f"{address}/") is not None:
        return redirect("manual", address=f"{address}/", permanent=True)
    raise Http404(f"The manual has no page {address!r}.")
