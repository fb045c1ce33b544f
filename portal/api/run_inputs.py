"""What the API takes for models, runs, organisations and exports."""

from rest_framework import serializers

from evaluator.contract import Backend, Verdict
from portal.accounts.organisations import SHORT_NAME
from portal.api.fields import values_of
from portal.api.inputs import Attachment, Choice, Number, PagedQuery, ProfileName, Query, Strict, Text, Whole, patterned
from portal.deliveries.outbound_http import ADDRESS
from portal.runs.models import ATTEMPT_MODES, AttemptState, EventKind, RunMode, RunState
from portal.runs.prompts import VERSION, VERSIONS
from portal.tabular.tables import MEDIA_TYPES

_MOST = 2**31 - 1
_CURSOR_MOST = 2**62


class PromptQuery(Query):
    backend = Choice(choices=values_of(Backend), default=Backend.PYTORCH.value)
    profile = ProfileName(default="cpux2", help_text="A profile's name, such as h200x8-nomc.")
    version = Choice(
        choices=tuple(VERSIONS),
        default=VERSION,
        help_text=f"{'; '.join(f'{name}: {each.title}' for name, each in VERSIONS.items())}.",
    )


class RunInput(Strict):
    """A new run."""

    organisation = Text(max_length=60, required=False, help_text="Its short name; your own one by default.")
    model = Text(max_length=80, help_text="The model's name.")
    version = Text(max_length=40, default="", allow_blank=True)
    provider = Text(max_length=80, default="", allow_blank=True, help_text="The organisation's name by default.")
    mode = Choice(choices=RunMode.values, help_text="How the attempts are generated.")
    backend = Choice(choices=values_of(Backend), default=Backend.PYTORCH.value)
    profile = ProfileName(help_text="Where every attempt is judged: a name from /api/v1/profiles/.")
    k = Whole(min_value=1, max_value=1000, default=1, help_text="Samples per problem.")
    sampling = serializers.DictField(
        required=False, help_text="Temperature, token limits and other settings; at most 4096 bytes."
    )
    prompt_version = Text(max_length=80, default="", allow_blank=True)
    cost_usd = Number(min_value=0, max_value=999_999_999, required=False, allow_null=True)
    notes = Text(max_length=4000, default="", allow_blank=True)


class RunsQuery(PagedQuery):
    model = Text(max_length=120, required=False, help_text="Only runs of the model with this slug.")
    state = Choice(choices=RunState.values, required=False)


class AttemptInput(Strict):
    """One attempt: `source` for one file, `files` for several, not both."""

    problem = Text(max_length=100, help_text="A slug from /api/v1/problems/.")
    sample = serializers.IntegerField(min_value=0, max_value=9_999, required=False)
    step = serializers.IntegerField(min_value=0, max_value=999, required=False)
    key = Text(
        max_length=150,
        required=False,
        help_text="Identifies the attempt if it is sent again; problem/sample/step by default.",
    )
    mode = Choice(choices=ATTEMPT_MODES, required=False, help_text="ranked by default.")
    backend = Choice(
        choices=values_of(Backend), required=False, help_text="What it is written in; the run's backend by default."
    )
    source = Text(  # type: ignore[assignment]  # the metaclass takes it out of the class
        required=False, allow_blank=True, help_text="The text of solution.py."
    )
    files = serializers.DictField(
        child=Text(allow_blank=True), required=False, allow_empty=False, help_text="Text by path."
    )
    tokens_in = serializers.IntegerField(min_value=0, max_value=_MOST, required=False, allow_null=True)
    tokens_out = serializers.IntegerField(min_value=0, max_value=_MOST, required=False, allow_null=True)
    cost_usd = serializers.FloatField(min_value=0, max_value=999_999_999, required=False, allow_null=True)
    seconds = serializers.FloatField(min_value=0, max_value=999_999_999, required=False, allow_null=True)
    trajectory = Text(required=False, allow_blank=True, help_text="At most 64 KiB; credentials are redacted.")


class AttemptsQuery(PagedQuery):
    problem = Text(max_length=100, required=False)
    verdict = Choice(choices=values_of(Verdict), required=False)
    state = Choice(choices=AttemptState.values, required=False)
    sample = serializers.IntegerField(min_value=0, max_value=9_999, required=False)


class EventsQuery(Query):
    """From where in the feed, and how long to wait for something."""

    after = serializers.IntegerField(min_value=0, max_value=_CURSOR_MOST, default=0, help_text="`next` of the last.")
    wait = serializers.IntegerField(min_value=0, max_value=25, default=0, help_text="Seconds to hold the call open.")
    limit = serializers.IntegerField(min_value=1, max_value=500, default=100)


class PublishInput(Strict):
    """How to publish."""

    sources = Choice(choices=["private", "public"], default="public", help_text="Whether everybody may read sources.")


class FormatQuery(Query):
    format = Choice(choices=list(MEDIA_TYPES), default="jsonl")


class TreeUpload(Strict):
    """A tree of solutions."""

    file = Attachment(help_text="A zip of solutions_<backend>_<precision>_<gpu>_<ranks>_<vendor>_<model>.")
    organisation = Text(max_length=60, required=False)
    model = Text(max_length=80, required=False)
    version = Text(max_length=40, required=False)
    provider = Text(max_length=80, required=False)
    profile = ProfileName(required=False)
    backend = Choice(choices=values_of(Backend), required=False, help_text="What the model was asked for.")
    program_backend = Choice(
        choices=values_of(Backend),
        required=False,
        help_text="What every program is judged as.",
    )
    problems = Text(
        max_length=20_000,
        required=False,
        help_text="FILE=SLUG where a name says no problem, separated by commas.",
    )
    notes = Text(max_length=4000, required=False)


class ModelBoardQuery(Query):
    profile = ProfileName(help_text="A profile's name, such as h200x8-nomc.")
    p = serializers.FloatField(min_value=0, max_value=100, default=1.0, help_text="The speedup that fast_p asks for.")
    faster = Choice(choices=("interval", "point"), default="interval", help_text="point: as publications count.")


class OrganisationInput(Strict):
    """A new organisation."""

    slug = patterned(SHORT_NAME, max_length=60, help_text="Lower-case letters, digits and hyphens.")
    name = Text(max_length=120)


class WebhookInput(Strict):
    """An address that receives events."""

    url = patterned(ADDRESS, max_length=300, help_text="https, without user name or fragment.")
    events = serializers.ListField(
        child=Choice(choices=EventKind.values),
        min_length=1,
        max_length=10,
        default=[EventKind.RUN_COMPLETED.value, EventKind.RUN_PUBLISHED.value],
    )
