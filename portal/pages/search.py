"""One search over problems, models, people and the manual."""

from dataclasses import dataclass

from portal.accounts.models import User
from portal.accounts.queries import Viewer
from portal.catalog import facets
from portal.manual.search import FoundPassage
from portal.manual.search import find as find_in_manual
from portal.ranking.models import PersonStanding
from portal.runs.models import LanguageModel
from portal.runs.queries import visible_models
from problems import registry
from problems.spec.schema import Problem

MAX_TEXT = 100
MAX_EACH = 25


@dataclass(frozen=True, kw_only=True)
class Found:
    """What fits, at most `MAX_EACH` of every kind; `is_cut` says that there was more."""

    problems: tuple[Problem, ...] = ()
    models: tuple[LanguageModel, ...] = ()
    people: tuple[User, ...] = ()
    passages: tuple[FoundPassage, ...] = ()
    is_cut: bool = False

    @property
    def count(self) -> int:
        return len(self.problems) + len(self.models) + len(self.people) + len(self.passages)


def search(text: str, *, viewer: Viewer) -> Found:
    """Problems and passages of the manual that contain every word, models and people whose name contains the text.

    People are those with an accepted entry; models those with a run that `viewer` may see.
    """
    wanted = text.strip()[:MAX_TEXT]
    if not wanted:
        return Found()
    problems = facets.find(registry.problems(), chosen={}, search=wanted)
    models = list(visible_models(viewer).filter(slug__icontains="-".join(wanted.split()))[: MAX_EACH + 1])
    entered = PersonStanding.objects.values("author")
    people = User.objects.filter(is_active=True, username__icontains=wanted, pk__in=entered).order_by("username")
    named = list(people[: MAX_EACH + 1])
    passages = find_in_manual(wanted, limit=MAX_EACH + 1)
    return Found(
        problems=tuple(problems[:MAX_EACH]),
        models=tuple(models[:MAX_EACH]),
        people=tuple(named[:MAX_EACH]),
        passages=passages[:MAX_EACH],
        is_cut=max(len(problems), len(models), len(named), len(passages)) > MAX_EACH,
    )
