"""How the OpenAPI document describes one operation: as its endpoint and its `operation` say."""

from typing import Any

from drf_spectacular.openapi import AutoSchema
from rest_framework.serializers import ListSerializer

from portal.api.inputs import NoQuery
from portal.api.operations import Operation, operation_of
from portal.api.schema import refusals


class OperationSchema(AutoSchema):
    """Reads an endpoint and its operations, which spectacular cannot see."""

    view: Any  # an Endpoint; spectacular knows of an APIView

    @property
    def _operation(self) -> Operation:
        said = operation_of(self.view)
        assert said is not None, f"{type(self.view).__name__}.{self.view.action} is no operation"
        return said

    def get_operation_id(self) -> str:
        """Its name."""
        return self._operation.id

    def get_summary(self) -> str:
        """What it does."""
        return self._operation.summary

    def get_tags(self) -> list[str]:
        """The part of the API."""
        return [self.view.tag]

    def get_override_parameters(self) -> list[Any]:
        """What stands in its path, its query and its headers."""
        query = self._operation.query
        return [*self._in_path(), *([] if query is NoQuery else [query]), *self._operation.headers]

    def _in_path(self) -> list[Any]:
        return [parameter for parameter in self.view.path_parameters if f"{{{parameter.name}}}" in self.path]

    def get_request_serializer(self) -> Any:
        """Its body."""
        return self._operation.body

    def get_examples(self) -> list[Any]:
        """Examples of its body."""
        return list(self._operation.examples)

    def get_response_serializers(self) -> Any:
        """What it answers and what it may refuse."""
        said = self._operation
        found = {*said.refuses, *said.input_refusals}
        found |= {422} if self.method == "GET" else set()
        found |= {404} if self._in_path() else set()
        found |= {403} if self.view.scope_for(self.method) is not None else set()
        return {**said.answer.described(said.status), **refusals(found)}

    def _is_list_view(self, serializer: Any = None) -> bool:
        """Whether many are answered: the operation says so itself, whatever its method is called."""
        return isinstance(serializer, ListSerializer)

    def get_auth(self) -> list[dict[str, Any]]:
        """The ways to be let in; the empty one stands for nobody in particular."""
        found: list[dict[str, Any]] = super().get_auth()  # registers the schemes in the components
        if not any("token" in way for way in found):
            return found  # a node's key
        scope = self.view.scope_for(self.method)
        ways: list[dict[str, Any]] = [{"token": [str(scope)] if scope else []}, {"session": []}]
        return [*ways, {}] if self.view.is_open_for(self.method) else ways
