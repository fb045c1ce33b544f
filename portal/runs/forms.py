"""Making, filling and publishing a run in the browser."""

from typing import Any

from django import forms

from evaluator.hardware.profiles import profiles
from portal.accounts.models import User
from portal.accounts.organisations import default_organisations, own_organisations
from portal.core.errors import ActionForm
from portal.runs import actions, prompts, uploads
from portal.runs.models import RunMode
from portal.submissions.forms import BACKENDS, profile_choices

_AS_NAMED = "Leave empty to take it from the folder's name."
_BY_NAME = ("", "From the folder's name")


class _OrganisationForm(ActionForm):
    """Forms that make something for one of the reader's organisations."""

    def __init__(self, *args: Any, user: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        homes = list(default_organisations(user).values_list("slug", flat=True))
        slugs = [*homes, *own_organisations(user).exclude(slug__in=homes).values_list("slug", flat=True)]
        # What is chosen at first is never an organisation to which others have merely added the reader.
        fresh = [] if homes else [("", f"A new one of your own ({user.username})")]
        choices = [*fresh, *((slug, slug) for slug in slugs)]
        self.fields["organisation"] = forms.ChoiceField(label="Organisation", choices=choices, required=not fresh)
        self.order_fields(["file", "organisation", *(name for name in self.fields if name != "organisation")])


class RunForm(_OrganisationForm):
    model = forms.CharField(label="Model", max_length=80)
    version = forms.CharField(label="Version", max_length=40, required=False)
    provider = forms.CharField(label="Provider", max_length=80, required=False)
    mode = forms.ChoiceField(label="Mode", choices=RunMode.choices)
    backend = forms.ChoiceField(label="Backend", choices=BACKENDS)
    profile = forms.ChoiceField(label="Profile", choices=profile_choices(profiles().values()))
    k = forms.IntegerField(label="Samples per problem (k)", min_value=1, max_value=1000, initial=1)
    prompt_version = forms.CharField(
        label="Prompt version",
        max_length=80,
        required=False,
        help_text=f"{', '.join(prompts.VERSIONS)}, or a name of your own for another prompt.",
    )
    cost_usd = forms.FloatField(label="Cost of the run in USD", min_value=0, required=False)
    notes = forms.CharField(
        label="Notes", max_length=4000, required=False, widget=forms.Textarea(attrs={"rows": 4}), help_text="Public."
    )

    def values(self) -> dict[str, Any]:
        given = {name: value for name, value in self.cleaned_data.items() if value not in (None, "")}
        return {"declaration": actions.RunDeclaration(**given)}


class ImportForm(_OrganisationForm):
    file = forms.FileField(
        label="Zip", help_text="The folder solutions_<backend>_<precision>_<gpu>_<ranks>_<vendor>_<model>, packed."
    )
    provider = forms.CharField(label="Provider", max_length=80, required=False, help_text=_AS_NAMED)
    model = forms.CharField(label="Model", max_length=80, required=False, help_text=_AS_NAMED)
    version = forms.CharField(label="Version", max_length=40, required=False)
    backend = forms.ChoiceField(label="Backend that was asked for", choices=[_BY_NAME, *BACKENDS], required=False)
    program_backend = forms.ChoiceField(
        label="Backend of the programs", choices=[("", "What each one's text shows"), *BACKENDS], required=False
    )
    profile = forms.ChoiceField(
        label="Profile", choices=[_BY_NAME, *profile_choices(profiles().values())], required=False
    )
    problems = forms.CharField(
        label="Problems of files", max_length=20_000, required=False, help_text="FILE=SLUG, separated by commas."
    )

    def values(self) -> dict[str, Any]:
        values = dict(self.cleaned_data)
        upload = values.pop("file")
        choices = {name: values.pop(name) for name in ("problems", "program_backend")}
        return {"stream": upload, "name": upload.name, "declaration": values, **choices}


class FillForm(ActionForm):
    """An archive or JSON Lines for a run that is there."""

    file = forms.FileField(label="Attempts", help_text=".zip of SLUG/SAMPLE/solution.py, or .jsonl with one per line.")

    def values(self) -> dict[str, Any]:
        upload = self.cleaned_data["file"]
        is_zip = upload.name.lower().endswith(".zip")
        return {"lines": uploads.read_archive(upload, name=upload.name) if is_zip else uploads.read_lines(upload)}
