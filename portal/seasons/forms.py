"""Opening and changing a season in the browser."""

from typing import Any
from zoneinfo import ZoneInfo

from django import forms
from django.forms.utils import ErrorDict
from django.utils import timezone

from evaluator.hardware.profiles import profiles
from portal.accounts.models import Role, User
from portal.core.errors import ActionForm, Refusal
from portal.seasons.actions import FIXED
from portal.seasons.models import Access, Counted, Definition, OpenedSources, Phase, Season, definition_of
from portal.submissions.forms import profile_choices
from problems import registry
from problems.spec.schema import Problem
from problems.spec.taxonomy import BLOCK_GROUPS

_MOMENT = "%Y-%m-%dT%H:%M"
_PLACE = "place-"


def _moment(label: str) -> forms.DateTimeField:
    widget = forms.DateTimeInput(attrs={"type": "datetime-local"}, format=_MOMENT)
    return forms.DateTimeField(label=label, widget=widget, input_formats=[_MOMENT, f"{_MOMENT}:%S", "%Y-%m-%d %H:%M"])


class SeasonForm(ActionForm):
    """A season; problems have a number each, by which they are ordered, and empty ones are not in it."""

    title = forms.CharField(label="Title", max_length=120)
    slug = forms.CharField(
        label="Short name",
        max_length=60,
        help_text="Its address is /seasons/NAME/. Lower-case letters, digits and hyphens.",
        widget=forms.TextInput(attrs={"autocapitalize": "none", "spellcheck": "false"}),
    )
    organisation = forms.ChoiceField(label="Run by", required=False, help_text="Its owners run the season.")
    profile = forms.ChoiceField(label="Profile", help_text="Practice profiles cost nothing.")
    opens_at = _moment("Opens")
    closes_at = _moment("Closes")
    time_zone = forms.CharField(
        label="Time zone of both",
        initial="UTC",
        max_length=60,
        help_text="Such as UTC, Europe/Berlin, America/New_York.",
    )
    access = forms.ChoiceField(label="Who takes part", choices=Access.choices)
    counts = forms.ChoiceField(label="What counts", choices=Counted.choices)
    hides_board = forms.BooleanField(label="Show results of others only after the end", required=False)
    opened_sources = forms.ChoiceField(label="Which sources become public", choices=OpenedSources.choices)
    owners_read = forms.BooleanField(
        label="Its owners read the source of each entry at once",
        required=False,
        help_text="Participants are told before they join. It cannot change once somebody has.",
    )
    rejudged_per_problem = forms.IntegerField(
        label="Leaders judged again per problem", initial=5, min_value=1, max_value=1000
    )
    largest_team = forms.IntegerField(label="Largest team", initial=5, min_value=1, max_value=1000)
    rules = forms.CharField(
        label="Text", required=False, max_length=20_000, widget=forms.Textarea(attrs={"rows": 8}), help_text="Markdown."
    )

    def __init__(
        self, *args: Any, user: User, season: Season | None = None, is_copy: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.initial = _values(season, is_copy=is_copy) if season else {}
        owned = user.organisations.filter(memberships__role=Role.OWNER, memberships__user=user).distinct()
        choices = [(each.slug, each.name) for each in owned]
        if season is not None and season.organisation is not None and not is_copy:
            choices = [(season.organisation.slug, season.organisation.name)]
        offered: Any = self.fields
        offered["organisation"].choices = [("", "The operators of this site"), *choices] if user.is_staff else choices
        offered["organisation"].required = not user.is_staff
        offered["profile"].choices = profile_choices(profiles().values())
        self.keeps_problems = False
        self.is_new = season is None or is_copy
        if season is None or is_copy:
            return
        phase, fixed = season.phase(timezone.now()), ["slug", "organisation"]
        if phase not in (Phase.DRAFT, Phase.UPCOMING):
            self.keeps_problems = True
            fixed += FIXED if phase is Phase.OPEN else (*FIXED, "closes_at")
        for name in fixed:
            if name in self.fields:
                self.fields[name].disabled = True

    def full_clean(self) -> None:
        """As every form, with moments in the time zone that it names; one that an hour's change skips is an error."""
        zone = str(self.data.get("time_zone", "")).strip() or "UTC"
        try:
            with timezone.override(ZoneInfo(zone)):
                super().full_clean()
        except (ValueError, OSError, LookupError):
            self._errors = ErrorDict()
            self.cleaned_data = {}
            said = f"There is no time zone {zone[:60]!r}. Write a name such as Europe/Berlin, or UTC."
            self.add_error("time_zone", said)

    def clean_slug(self) -> str:
        """The name; a new season changes none that there is."""
        slug = str(self.cleaned_data["slug"])
        if self.is_new and Season.objects.filter(slug=slug).exists():
            raise forms.ValidationError("Another season has this short name. Choose another one.")
        return slug

    def values(self) -> dict[str, Any]:
        """The definition; raises Refusal."""
        given = {name: value for name, value in self.cleaned_data.items() if name != "time_zone"}
        return {"definition": definition_of(given | {"problems": self._chosen()})}

    def _chosen(self) -> list[str]:
        """The chosen problems in the order of their numbers, or those that it has to keep."""
        if self.keeps_problems:
            return list(self.initial["problems"])
        places = {}
        for problem in registry.problems():
            said = str(self.data.get(_PLACE + problem.slug, "")).strip()
            if not said:
                continue
            if not said.isdecimal() or len(said) > 4:
                message = f"The place of {problem.slug} is {said[:20]!r}."
                raise Refusal("problems", said, message, "Write a whole number such as 1, or leave it empty.")
            places[problem.slug] = int(said)
        return sorted(places, key=lambda slug: places[slug])

    def problems(self) -> list[tuple[str, list[tuple[Problem, Any]]]]:
        """The taxonomy's blocks with their problems, and the place that each has in the season."""
        spot = {slug: place for place, slug in enumerate(self.initial.get("problems", ()), start=1)}
        found = []
        for blocks in BLOCK_GROUPS.values():
            for block in blocks:
                of_block = [problem for problem in registry.problems() if problem.block is block]
                rows = [
                    (problem, self.data.get(_PLACE + problem.slug, "") if self.is_bound else spot.get(problem.slug, ""))
                    for problem in of_block
                ]
                found.append((block.label, rows))
        return found


def _values(season: Season, *, is_copy: bool) -> dict[str, Any]:
    values = {name: getattr(season, name) for name in Definition.__struct_fields__}
    values["organisation"] = season.organisation.slug if season.organisation else ""
    new = ("slug", "opens_at", "closes_at") if is_copy else ()
    return {name: value for name, value in values.items() if name not in new}
