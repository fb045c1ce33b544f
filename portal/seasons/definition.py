"""A season as data, from a form or the API, checked field by field."""

from datetime import datetime
from typing import Annotated, Any

import msgspec

from evaluator.contract import Mode
from evaluator.hardware.profiles import Profile
from portal.catalog.queries import get_profile
from portal.core.errors import Refusal, check_choice
from portal.seasons.models import Access, Counted, OpenedSources
from problems import registry

TAKEN = ("new", "join")
"""Words that stand where the addresses of seasons have their names."""
_MOST = 32767
_Slug = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9](?:[a-z0-9-]{0,58}[a-z0-9])?$")]
_Title = Annotated[str, msgspec.Meta(min_length=1, max_length=120)]
_Moment = Annotated[datetime, msgspec.Meta(tz=True)]
_Count = Annotated[int, msgspec.Meta(ge=1, le=_MOST)]


class Definition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an owner or operator says of a season; `portal.seasons.models.Season` explains the fields."""

    slug: _Slug
    title: _Title
    profile: str
    problems: tuple[str, ...]
    opens_at: _Moment
    closes_at: _Moment
    rules: str = ""
    rejudged_per_problem: _Count = 5
    largest_team: _Count = 5
    opened_sources: str = OpenedSources.STANDINGS.value
    organisation: str = ""
    access: str = Access.EVERYBODY.value
    counts: str = Counted.SCORE.value
    hides_board: bool = False
    owners_read: bool = False

    @property
    def columns(self) -> dict[str, Any]:
        """What a season's row has of it."""
        return msgspec.structs.asdict(self) | {"problems": list(self.problems)}


def definition_of(values: Any) -> Definition:
    """The definition that these values are, checked; raises Refusal."""
    try:
        definition = msgspec.convert(values, type=Definition)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at ")
        field = place.strip("`").removeprefix("$.") or "season"
        said = str(values.get(field, "")) if isinstance(values, dict) else ""
        what = "Letters a to z, digits and hyphens are allowed, no hyphen at an end" if field == "slug" else what
        remedy = "docs/seasons.md describes every field with an example."
        raise Refusal(field, said, f"{what}.", remedy) from error
    check(definition)
    return definition


def check(definition: Definition) -> None:
    """Refuse a season that could not take place."""
    if definition.slug in TAKEN:
        raise Refusal("slug", definition.slug, "This address is the site's own.", "Choose another short name.")
    profile = get_profile(definition.profile)
    if not profile.measures_time and definition.counts == Counted.SCORE:
        message = f"{profile.name} times nothing, because its ranks share a GPU: there is no score to count."
        raise Refusal("counts", definition.counts, message, "Let correct count, or choose another profile.")
    _check_problems(definition, profile)
    if definition.closes_at <= definition.opens_at:
        raise Refusal("closes_at", str(definition.closes_at), "It closes before it opens.", "Choose a later moment.")
    for field, known in (("opened_sources", OpenedSources), ("access", Access), ("counts", Counted)):
        check_choice(field, getattr(definition, field), known.values, noun="choice")


def _check_problems(definition: Definition, profile: Profile) -> None:
    known = {problem.slug: problem for problem in registry.problems()}
    if not definition.problems:
        raise Refusal("problems", "", "The list of problems is empty.", "Name at least one problem.")
    for slug in definition.problems:
        if slug not in known:
            raise Refusal("problems", slug, f"There is no problem {slug!r}.", "`pkb problems` lists them.")
        if definition.problems.count(slug) > 1:
            raise Refusal("problems", slug, f"{slug!r} is in the list twice.", "Name each problem once.")
        reason = known[slug].refuses(profile.world_size, profile.sizes[Mode.RANKED])
        if reason is not None:
            message = f"{slug} does not run on {profile.name}: it {reason}."
            raise Refusal("problems", slug, message, "Leave it out, or choose another profile.")
