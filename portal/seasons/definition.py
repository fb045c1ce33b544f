"""A season as data: a YAML or JSON file, checked field by field."""

from datetime import datetime
from typing import Annotated, Any, NoReturn

import msgspec
import yaml

from evaluator.contract import Mode
from evaluator.hardware import profiles
from portal.core.errors import Refusal
from portal.seasons.models import OpenedSources
from problems import registry

_MOST = 32767
_Slug = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9](?:[a-z0-9-]{0,58}[a-z0-9])?$")]
_Title = Annotated[str, msgspec.Meta(min_length=1, max_length=120)]
_Moment = Annotated[datetime, msgspec.Meta(tz=True)]
_Count = Annotated[int, msgspec.Meta(ge=1, le=_MOST)]


class Definition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An operator's definition of a season; `portal.seasons.models.Season` explains the fields."""

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


def read(text: str) -> Definition:
    """The definition in a YAML or JSON text; raises Refusal."""
    try:
        held = yaml.safe_load(text)
    except yaml.YAMLError as error:
        _refuse("file", "", f"This is neither YAML nor JSON: {error}", "Correct the syntax. JSON is valid YAML.")
    return made(held)


def made(values: Any) -> Definition:
    """The definition that these values are, checked; raises Refusal."""
    try:
        definition = msgspec.convert(values, type=Definition)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at ")
        field = place.strip("`").removeprefix("$.") or "file"
        _refuse(field, "", f"{what}.", "docs/seasons.md describes every field with an example.")
    check(definition)
    return definition


def check(definition: Definition) -> None:
    """Refuse a season that could not take place."""
    _check_profile(definition)
    _check_problems(definition)
    if definition.closes_at <= definition.opens_at:
        _refuse("closes_at", str(definition.closes_at), "It closes before it opens.", "Choose a later moment.")
    if definition.opened_sources not in OpenedSources.values:
        known = ", ".join(OpenedSources.values)
        _refuse("opened_sources", definition.opened_sources, "There is no such choice.", f"Choose one of {known}.")


def _check_profile(definition: Definition) -> None:
    if definition.profile not in profiles.profiles():
        _refuse(
            "profile",
            definition.profile,
            "There is no such profile.",
            f"Choose one of {', '.join(profiles.profiles())}.",
        )


def _check_problems(definition: Definition) -> None:
    known = {problem.slug: problem for problem in registry.problems()}
    profile = profiles.get(definition.profile)
    if not definition.problems:
        _refuse("problems", "", "The list of problems is empty.", "Name at least one problem.")
    for slug in definition.problems:
        if slug not in known:
            _refuse("problems", slug, f"There is no problem {slug!r}.", "`pkb problems` lists them.")
        if definition.problems.count(slug) > 1:
            _refuse("problems", slug, f"{slug!r} is in the list twice.", "Name each problem once.")
        reason = known[slug].refuses(profile.world_size, profile.sizes[Mode.RANKED])
        if reason is not None:
            _refuse(
                "problems",
                slug,
                f"{slug} does not run on {profile.name}: it {reason}.",
                "Leave it out, or choose another profile.",
            )


def _refuse(field: str, value: str, message: str, remedy: str) -> NoReturn:
    raise Refusal(field=field, value=value, message=message, remedy=remedy)
