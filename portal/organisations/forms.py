"""Making an organisation, inviting somebody, and adding a webhook in the browser."""

from django import forms

from portal.accounts import memberships, organisations
from portal.accounts.forms import RefusableForm
from portal.accounts.models import Invitation, Organisation, Role, User
from portal.core.errors import Refusal
from portal.deliveries import actions as deliveries
from portal.deliveries.models import Endpoint
from portal.runs.models import EventKind

_PLAIN = {"autocapitalize": "none", "spellcheck": "false", "autocomplete": "off"}


class OrganisationForm(RefusableForm):
    """A new organisation."""

    name = forms.CharField(label="Name", max_length=120, help_text="Public: shown as the provider of its models.")
    slug = forms.CharField(
        label="Short name",
        max_length=60,
        help_text="Used in addresses and by programs. Lower-case letters, digits and hyphens.",
        widget=forms.TextInput(attrs=_PLAIN),
    )

    def create(self, owner: User) -> Organisation | None:
        """The new organisation, or None after showing why there is none."""
        try:
            return organisations.create_organisation(owner, **self.cleaned_data)
        except Refusal as refusal:
            self.refuse(refusal)
        return None


class InviteForm(RefusableForm):
    """An account to invite to an organisation."""

    username = forms.CharField(label="Account", max_length=150, widget=forms.TextInput(attrs=_PLAIN))
    role = forms.ChoiceField(
        label="As",
        choices=Role.choices,
        initial=Role.MEMBER,
        help_text="Members make runs and read all of its runs; owners also invite and remove people, keep webhooks, "
        "and may come to stand for its GPU time.",
    )

    def invite(self, organisation: Organisation, *, by: User) -> Invitation | None:
        """The invitation, or None after showing why there is none."""
        try:
            return memberships.invite(organisation, by=by, **self.cleaned_data)
        except Refusal as refusal:
            self.refuse(refusal)
        return None


class WebhookForm(RefusableForm):
    """An address that receives events."""

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

    def add(self, organisation: Organisation, *, by: User) -> Endpoint | None:
        """The new webhook, or None after showing why there is none."""
        try:
            return deliveries.add_webhook(organisation, by=by, **self.cleaned_data)
        except Refusal as refusal:
            self.refuse(refusal)
        return None
