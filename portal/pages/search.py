"""One search over problems, models, people and the manual."""

from dataclasses import dataclass, replace
from difflib import get_close_matches

from portal.accounts.models import User, Viewer
from portal.catalog import facets
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
    """What fits, at most so many of every kind; `is_cut` says that there was more.

    `instead_of` is what was typed, where nothing has those words and these are found by words like them.
    """

    problems: tuple[Problem, ...] = ()
    models: tuple[LanguageModel, ...] = ()
    people: tuple[User, ...] = ()
    passages: tuple[dict[str, str], ...] = ()
    is_cut: bool = False
    instead_of: str = ""

    @property
    def count(self) -> int:
        return len(self.problems) + len(self.models) + len(self.people) + len(self.passages)


def search(text: str, *, viewer: Viewer, most: int = MAX_EACH) -> Found:
    """Problems and passages of the manual that contain every word, models and people whose name contains the text.

    People are those with an accepted entry; models those with a run that `viewer` may see. Where there is nothing,
    words that no problem has give way to the closest that one has.
    """
    wanted = text.strip()[:MAX_TEXT]
    if not wanted:
        return Found()
    found = _find(wanted, viewer=viewer, most=most)
    if found.count:
        return found
    known = facets.words()
    closest = [get_close_matches(word, known, n=1, cutoff=0.8) for word in wanted.lower().split()]
    corrected = " ".join(words[0] for words in closest if words)
    return replace(_find(corrected, viewer=viewer, most=most), instead_of=wanted) if all(closest) else found


def _find(wanted: str, *, viewer: Viewer, most: int) -> Found:
    problems = facets.find(registry.problems(), chosen={}, search=wanted)
    models = list(visible_models(viewer).filter(slug__icontains="-".join(wanted.split()))[: most + 1])
    entered = PersonStanding.objects.values("author")
    people = User.objects.filter(is_active=True, username__icontains=wanted, pk__in=entered).order_by("username")
    named = list(people[: most + 1])
    passages = find_in_manual(wanted, limit=most + 1)
    return Found(
        problems=tuple(problems[:most]),
        models=tuple(models[:most]),
        people=tuple(named[:most]),
        passages=passages[:most],
        is_cut=max(len(problems), len(models), len(named), len(passages)) > most,
    )
