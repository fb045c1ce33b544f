"""What all endpoints share: who may call them, and the caller as the actions and queries take it."""

from typing import Any, ClassVar

from django.contrib.auth.models import AnonymousUser
from drf_spectacular.utils import OpenApiParameter
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request
from rest_framework.viewsets import ViewSet

from portal.accounts.models import TokenScope, User
from portal.api.operations import Operation, operation_of
from portal.api.parsers import require_length


class Endpoint(ViewSet):
    """A set of views of the API, whose methods are made by `operation`.

    Attributes:
        tag: the part of the API that it belongs to.
        path_parameters: the parameters of its address, and of the endpoints that derive from it.
        read_scope: the scope that a token needs to read.
        write_scope: the scope that a token needs to write.
        is_private: whether anonymous callers may not read; writing always needs a sign-in.
        also_enough: scopes that do instead of `read_scope`; a read then shows only what they are for.
    """

    http_method_names = ["get", "head", "post"]
    tag: ClassVar[str] = ""
    path_parameters: ClassVar[tuple[OpenApiParameter, ...]] = ()
    read_scope: ClassVar[TokenScope | None] = None
    write_scope: ClassVar[TokenScope | None] = None
    is_private: ClassVar[bool] = False
    also_enough: ClassVar[frozenset[str]] = frozenset()

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """What is checked before any method runs."""
        super().initial(request, *args, **kwargs)
        require_length(request)

    def scope_for(self, method: str | None) -> TokenScope | None:
        """The scope that a token needs for a method; None for one that the endpoint does not know."""
        if operation_of(self) is None:
            return None
        return self.read_scope if method in SAFE_METHODS else self.write_scope

    def is_open_for(self, method: str | None) -> bool:
        """Whether anonymous callers may use a method."""
        return operation_of(self) is None or (method in SAFE_METHODS and not self.is_private)

    def serializer_context(self) -> dict[str, Any]:
        """What serializers of answers may look at."""
        return {"request": self.request}

    def query(self) -> dict[str, Any]:
        """The validated parameters of the query; raises ValidationError."""
        return self._operation.read_query(self.request)

    def body(self) -> dict[str, Any]:
        """The validated body; raises ValidationError."""
        return self._operation.read_body(self.request)

    @property
    def _operation(self) -> Operation:
        said = operation_of(self)
        assert said is not None
        return said


def caller(request: Request) -> User:
    """The user of a request that had to be signed in."""
    assert isinstance(request.user, User)
    return request.user


def viewer(request: Request) -> User | AnonymousUser:
    """Whoever is asking."""
    user: Any = request.user
    assert isinstance(user, (User, AnonymousUser))
    return user
