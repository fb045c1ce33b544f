"""The submit form, what its page says of profiles and starts with, and the small forms on a submission's page."""

import hashlib
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from django import forms
from django.conf import settings
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.html import json_script
from django.utils.safestring import SafeString

from evaluator.contract import Backend, Mode, SourceBundle
from evaluator.hardware.profiles import Profile
from portal.accounts.models import User
from portal.core.errors import ActionForm, Refusal
from portal.nodes.queries import guests_for, online_profiles
from portal.submissions import quotas, uploads
from portal.submissions.actions.submit import MAX_NOTES
from portal.submissions.models import Visibility
from portal.submissions.queue import Capability, capabilities
from problems import registry
from problems.spec.schema import ArgumentKind, SizeName

BACKENDS = [
    (Backend.PYTORCH.value, "PyTorch"),
    (Backend.CUDA.value, "CUDA"),
    (Backend.TRITON.value, "Triton"),
    (Backend.NVSHMEM.value, "NVSHMEM"),
    (Backend.NCCL_DEVICE.value, "NCCL device API"),
]
MODES = [
    (Mode.RANKED.value, "Ranked: counts on the board"),
    (Mode.BENCHMARK.value, "Benchmark: timed, private"),
    (Mode.PROFILE.value, "Profile: where the time goes, private"),
    (Mode.SWEEP.value, "Sweep: time over size, private"),
    (Mode.PUBLISHED.value, "Published: as the published harness judges, unranked"),
    (Mode.CHECK.value, "Check: verified only, quickest"),
]
SIZE_LABELS = [("", "As the mode has it"), *((size.value, size.value) for size in SizeName)]


def profile_choices(offered: Iterable[Profile]) -> list[tuple[str, str]]:
    return [(profile.name, f"{profile.name}: {profile.title}") for profile in offered]


def profiled_size(data: Mapping[str, str]) -> str:
    """The chosen size of a form; "" in every mode but profile, where the field is hidden."""
    return data.get("size", "") if data.get("mode") == Mode.PROFILE else ""


class EvaluateForm(forms.Form):
    """Where and how much to judge."""

    profile = forms.ChoiceField(label="Profile")
    mode = forms.ChoiceField(label="Mode", choices=MODES)
    size = forms.ChoiceField(label="Size to profile", choices=SIZE_LABELS, required=False)

    def __init__(self, *args: Any, profiles: list[Profile], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        online = online_profiles()
        groups = {
            "Online now": [profile for profile in profiles if profile.name in online],
            f"No node: waits up to {settings.UNSERVED_HOURS:.0f} hours": [
                profile for profile in profiles if profile.name not in online
            ],
        }
        choices = [(title, profile_choices(group)) for title, group in groups.items() if group]
        self.fields["profile"] = forms.ChoiceField(label="Profile", choices=choices)


class NotesForm(ActionForm):
    """What an author says of a submission to whoever opens its page."""

    notes = forms.CharField(
        label="Notes",
        required=False,
        widget=forms.Textarea(attrs={"rows": 8, "maxlength": MAX_NOTES}),
        help_text="Markdown with mathematics, for whoever opens the page; of a ranked entry that passed, everybody.",
    )
    built_on = forms.CharField(
        label="Built on",
        required=False,
        max_length=200,
        help_text="Id or address of a public submission to this problem, or of an earlier one of yours.",
    )


class SubmissionForm(EvaluateForm, NotesForm):
    """One source for one problem, typed in the editor or uploaded."""

    source = forms.CharField(label="Source", required=False, strip=False, widget=forms.Textarea)
    beside = forms.JSONField(required=False, widget=forms.HiddenInput)
    file = forms.FileField(label="Or upload a file", required=False, allow_empty_file=True)
    backend = forms.ChoiceField(label="Backend", choices=BACKENDS)
    visibility = forms.ChoiceField(label="Who may read the source", choices=Visibility.choices)
    node_owner = forms.ChoiceField(label="Judged by", required=False)
    note = forms.CharField(
        label="Note", required=False, max_length=200, help_text="Only you see it: what is new in this version."
    )
    key = forms.CharField(required=False, max_length=64, widget=forms.HiddenInput)

    def __init__(self, *args: Any, profiles: list[Profile], **kwargs: Any) -> None:
        super().__init__(*args, profiles=profiles, **kwargs)
        guests = {owner.slug: owner.name for owner in guests_for(*(profile.name for profile in profiles))}
        self.has_guests = bool(guests)
        choices = [("", "This site's nodes"), *((slug, f"{name}'s guest nodes") for slug, name in guests.items())]
        self.fields["node_owner"] = forms.ChoiceField(label="Judged by", required=False, choices=choices)

    def values(self) -> dict[str, Any]:
        files = self._bundle()
        derived = {"size": profiled_size(self.cleaned_data), "idempotency_key": self._idempotency_key(files)}
        return {**self._chosen(), **derived, "files": files}

    def _chosen(self) -> dict[str, str]:
        """All that was chosen of the submission, beside its files."""
        return {
            name: value for name, value in self.cleaned_data.items() if name not in ("source", "beside", "file", "key")
        }

    def refuse(self, refusal: Refusal) -> None:
        """Show it at the field it is about; what is wrong with a file, at the editor where none was uploaded."""
        if refusal.field == "file":
            field = "file" if self.cleaned_data.get("file") else "source"
            about = f"{refusal.value}: " if refusal.value and field == "file" else ""
            refusal = type(refusal)(
                field, refusal.value, f"{about}{refusal.message}", refusal.remedy, status=refusal.status
            )
        super().refuse(refusal)

    def clean_beside(self) -> dict[str, str]:
        """The texts beside the editor's, by path."""
        files = self.cleaned_data["beside"] or {}
        if not isinstance(files, dict) or not all(isinstance(text, str) for text in files.values()):
            raise forms.ValidationError("The files are no object of texts by path. Load the page again.")
        return files

    def _bundle(self) -> SourceBundle:
        upload = self.cleaned_data.get("file")
        if upload is not None:
            return uploads.bundle_from_upload(upload.name, upload.read())
        beside = self.cleaned_data["beside"]
        if beside:
            return uploads.bundle_from_files({**beside, SourceBundle.ENTRY: self.cleaned_data["source"]})
        return uploads.bundle_from_text(self.cleaned_data["source"])

    def _idempotency_key(self, files: SourceBundle) -> str | None:
        """Equal for a form that is sent twice, new once anything in it was changed."""
        key = self.cleaned_data["key"]
        if not key:
            return None
        parts = [key, files.digest, *self._chosen().values()]
        return f"form-{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()}"


def note(capability: Capability) -> str:
    """One or two sentences on what choosing this profile means at this moment."""
    context = {"capability": capability, "profile": capability.profile, "hours": f"{settings.UNSERVED_HOURS:.0f}"}
    return " ".join(render_to_string("submissions/profile_note.txt", context).split())


def submit_data(*, profiles: list[Profile], author: User, last: str) -> dict[str, Any]:
    """What the submit page says of these profiles; the forecasts are the author's, and so is the `last` choice.

    A profile without a node is offered first only where it is that choice, or where none is online.
    """
    able = capabilities()
    chosen = [able[profile.name] for profile in profiles]
    found = quotas.forecasts(quotas.payer_of_author(author), [profile.name for profile in profiles], now=timezone.now())
    costs = {forecast.price.profile: forecast for forecast in found}
    online = [capability.profile.name for capability in chosen if capability.is_online]
    default = last or (online[-1] if online else chosen[0].profile.name)
    return {
        "capabilities": chosen,
        "default_profile": default,
        "forecasts": found,
        "unserved_hours": f"{settings.UNSERVED_HOURS:.0f}",
        "default_note": f"{default}: {note(able[default])} {costs[default].words}",
        "script": {
            "profiles": {
                capability.profile.name: {
                    "title": capability.profile.title,
                    "backends": [backend.value for backend in capability.profile.backends],
                    "online": capability.is_online,
                    "note": f"{note(capability)} {costs[capability.profile.name].words}",
                }
                for capability in chosen
            },
            "maxBytes": settings.SUBMISSION_MAX_BYTES,
        },
        "max_kib": settings.SUBMISSION_MAX_BYTES // 1024,
    }


@cache
def starters(slug: str) -> dict[str, str]:
    """The starter of every backend for the problem `slug`.

    The one for `pytorch` is the reference itself: correct, and the program to beat.
    """
    problem = registry.get(slug)
    context = {
        "problem": problem,
        "parameters": ", ".join(problem.parameter_names),
        "header": problem.signature,
        "tensors": [argument.name for argument in problem.arguments if argument.kind is ArgumentKind.TENSOR],
        "outputs": ", ".join(
            f"{output.name} [{' x '.join(str(side) for side in output.shape)}] {output.placement.value}"
            for output in problem.outputs
        ),
        "reference": registry.reference_source(slug).rstrip(),
    }
    # Templates of source code must not be escaped as HTML: they end up in a text field or in JSON.
    return {backend: render_to_string(f"starters/{backend}.py.txt", context).strip() + "\n" for backend, _ in BACKENDS}


@cache
def starters_script(slug: str) -> SafeString:
    """The element `starters` of the submit page of the problem `slug`: the same, for its script."""
    return json_script(starters(slug), "starters")
