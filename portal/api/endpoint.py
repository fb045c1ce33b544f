"""What all endpoints share: who may call them, and the caller as the actions and queries take it."""

from collections.abc import Mapping
from typing import Any, ClassVar

from django.contrib.auth.models import AnonymousUser
from rest_framework.request import Request
from rest_framework.views import APIView

from portal.accounts.models import TokenScope, User
from portal.api.parsers import require_length


class Endpoint(APIView):
    """A view of the API.

    Attributes:
        scopes: the scope that a token needs, by method.
        signed_in: the methods that anonymous callers may not use.
        also_enough: scopes that do instead of the one in `scopes`; the view then shows only what they are for.
    """

    http_method_names = ["get", "head", "post"]
    scopes: ClassVar[Mapping[str, TokenScope]] = {}
    signed_in: ClassVar[frozenset[str]] = frozenset()
    also_enough: ClassVar[frozenset[str]] = frozenset()

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """What is checked before any method runs."""
        super().initial(request, *args, **kwargs)
        require_length(request)


def caller(request: Request) -> User:
    """The signed-in user of a request that `signed_in` has let through."""
    assert isinstance(request.user, User)
    return request.user


def viewer(request: Request) -> User | AnonymousUser:
    """Whoever is asking."""
    user: Any = request.user
    assert isinstance(user, (User, AnonymousUser))
    return user
