"""Who is asking, typed."""

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

from portal.accounts.models import User


def signed_in(request: HttpRequest) -> User:
    """The user of a request that `login_required` let through; raises PermissionDenied for anyone else."""
    if not isinstance(request.user, User):
        raise PermissionDenied
    return request.user
