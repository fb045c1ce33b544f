"""What an operator has switched for a problem."""

from django.db.models import QuerySet, SlugField

from portal.catalog.models import ProblemSwitch
from portal.core.errors import Refusal
from portal.core.kept_statements import Given, KeptStatement
from problems import registry
from problems.spec.schema import Problem


def switch(slug: str) -> ProblemSwitch:
    """The switches of the problem `slug`; an unsaved open one where the operator never touched it."""
    found = _SWITCH.row(slug=slug)
    return ProblemSwitch(slug=slug) if found is None else ProblemSwitch(**dict(zip(_SWITCHES, found, strict=True)))


_SWITCHES = ("slug", "is_open", "is_paused", "note")
_SWITCH = KeptStatement(lambda: ProblemSwitch.objects.filter(slug=Given("slug", SlugField())).values_list(*_SWITCHES))


def paused_slugs() -> QuerySet[ProblemSwitch, str]:
    """The slugs of the problems whose submissions wait until the operator resumes judging; part of larger queries."""
    return paused_problems().values_list("slug", flat=True)


def paused_problems() -> QuerySet[ProblemSwitch]:
    """The switches of those problems, in no order."""
    return ProblemSwitch.objects.filter(is_paused=True).order_by()


def get_problem(slug: str) -> Problem:
    """The problem called `slug`.

    Raises:
        Refusal: there is none (404); the message suggests near names.
    """
    try:
        return registry.get(slug)
    except registry.UnknownProblem as error:
        raise Refusal(
            field="problem",
            value=slug,
            message=f"{str(error)[:1].upper()}{str(error)[1:]}.".replace("?.", "?"),
            remedy="Choose a problem from the problem list.",
            status=404,
        ) from error
