"""Making an organisation, inviting somebody, and adding a webhook in the browser."""

from django import forms

from portal.accounts.models import Role
from portal.core.errors import ActionForm
from portal.runs.models import EventKind

_PLAIN = {"autocapitalize": "none", "spellcheck": "false", "autocomplete": "off"}


class OrganisationForm(ActionForm):
    name = forms.CharField(label="Name", max_length=120, help_text="Public: shown as the provider of its models.")
    slug = forms.CharField(
        label="Short name",
        max_length=60,
        help_text="Used in addresses and by programs. Lower-case letters, digits and hyphens.",
        widget=forms.TextInput(attrs=_PLAIN),
    )


class InviteForm(ActionForm):
    username = forms.CharField(label="Account", max_length=150, widget=forms.TextInput(attrs=_PLAIN))
    role = forms.ChoiceField(
        label="As",
        choices=Role.choices,
        initial=Role.MEMBER,
        help_text="Members make runs and read all of its runs; owners also invite and remove people, keep webhooks, "
        "and may come to stand for its GPU time.",
    )


class WebhookForm(ActionForm):
    url = forms.CharField(
        label="Address",
        max_length=300,
        widget=forms.TextInput(attrs=_PLAIN | {"inputmode": "url", "placeholder": "https://..."}),
    )
    events = forms.MultipleChoiceField(
        label="Send an event when",
        choices=EventKind.choices,
        widget=forms.CheckboxSelectMultiple,
        initial=[EventKind.RUN_COMPLETED, EventKind.RUN_PUBLISHED],
    )
