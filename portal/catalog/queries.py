"""What an operator has switched for a problem."""

from django.db.models import QuerySet

from portal.catalog.models import ProblemSwitch
from portal.core.errors import NotFound
from problems import registry
from problems.spec.schema import Problem


def switch(slug: str) -> ProblemSwitch:
    """The switches of the problem `slug`; an unsaved open one where the operator never touched it."""
    return ProblemSwitch.objects.filter(slug=slug).first() or ProblemSwitch(slug=slug)


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
        message = f"{str(error)[:1].upper()}{str(error)[1:]}.".replace("?.", "?")
        raise NotFound("problem", slug, message, "Choose a problem from the problem list.") from error
