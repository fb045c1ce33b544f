"""Deleting an account."""

from typing import Any

from django import forms

from portal.accounts.models import User
from portal.core.errors import ActionForm
from portal.privacy.actions import Entries


class DeleteAccountForm(ActionForm):
    """The fate of the entries, and the name once more to prevent accidental deletion."""

    entries = forms.ChoiceField(
        label="Your entries on the boards and your public sources",
        choices=(
            (Entries.ANONYMISE, "Keep them without my name"),
            (Entries.KEEP, "Keep them under my name"),
            (Entries.REMOVE, "Remove them from the boards and delete their sources"),
        ),
        initial=Entries.ANONYMISE,
        widget=forms.RadioSelect,
    )
    username = forms.CharField(
        label="Type your name to confirm",
        widget=forms.TextInput(attrs={"autocomplete": "off", "autocapitalize": "none", "spellcheck": "false"}),
    )

    def __init__(self, *args: Any, user: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._user = user

    def clean_username(self) -> str:
        if self.cleaned_data["username"] != self._user.username:
            raise forms.ValidationError(f"This is not your name. Type {self._user.username}.")
        return self._user.username

    def values(self) -> dict[str, Any]:
        return {"entries": Entries(self.cleaned_data["entries"])}
