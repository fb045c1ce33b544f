"""The pages on which one takes one's data along, or leaves."""

from allauth.account.decorators import reauthentication_required
from django.contrib import messages
from django.contrib.auth import logout
from django.contrib.auth.decorators import login_required
from django.http import FileResponse, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from portal.accounts import throttle
from portal.accounts.identity import shown_again, signed_in
from portal.privacy.actions import archive_of, delete_account
from portal.privacy.forms import DeleteAccountForm

ARCHIVES = throttle.Limit(failures=10, window_s=60 * 60)


@require_POST
@never_cache
@login_required
@reauthentication_required  # type: ignore[untyped-decorator]  # allauth has no types
@throttle.limited("archive", ARCHIVES)
def archive(request: HttpRequest) -> HttpResponse:
    user = signed_in(request)
    return FileResponse(archive_of(user), as_attachment=True, filename=f"parallelkernelbench-{user.username}.zip")  # type: ignore[return-value]


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@login_required
@shown_again
def leave(request: HttpRequest) -> HttpResponse:
    form = DeleteAccountForm(request.POST or None, user=signed_in(request))
    form.attempt(delete_account, signed_in(request))
    if form.is_valid():
        logout(request)
        messages.success(request, "Your account was deleted.")
        return redirect("home")
    return render(request, "own_data/leave.html", {"form": form}, status=form.status)
