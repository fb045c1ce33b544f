"""Forms that lead to one action and show what it refuses."""

from collections.abc import Callable
from typing import Any, TypeVar

from django import forms

from portal.core.errors import Refusal

Result = TypeVar("Result")


class ActionForm(forms.Form):
    """A form whose values an action takes."""

    _refused_status = 422

    @property
    def status(self) -> int:
        """The HTTP status of the page that shows the form."""
        return self._refused_status if self.errors else 200

    def values(self) -> dict[str, Any]:
        """What the action takes of a valid form, by the names of its parameters."""
        return self.cleaned_data

    def attempt(self, action: Callable[..., Result], *args: object, **context: object) -> Result | None:
        """What `action` returns for the form's values; None where the form is not valid or shows a refusal."""
        if not self.is_valid():
            return None
        try:
            return action(*args, **context, **self.values())
        except Refusal as refusal:
            self.refuse(refusal)
        return None

    def refuse(self, refusal: Refusal) -> None:
        """Show the refusal at the field it is about."""
        self._refused_status = refusal.status
        self.add_error(refusal.field if refusal.field in self.fields else None, refusal.sentences)
