"""Programs that others have published, judged here for correctness by two rules: the published one and ours.

`problems/data/published/programs.json` has a verdict by each rule, the digest of each program, and no text of any.
`tools/gpu/corpus.py --record` writes it.
"""

from collections import Counter
from collections.abc import Mapping
from functools import cache

from evaluator.contract.base import Message
from portal.ranking import published

NOT_JUDGED = "not judged"
KINDS = ("correct", "wrong", "forbidden", NOT_JUDGED)


class Ruling(Message, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one rule says of a program: one of KINDS, the judge's verdict, and its first sentence."""

    kind: str
    verdict: str
    why: str


class Program(Message, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A program and both rulings; None where it has not met that rule. `difference` says why they differ.

    `note` says what an expert has to know before reading the rulings.
    """

    problem: str
    published_as: str
    backend: str
    digest: str
    ours: Ruling | None
    published: Ruling | None
    difference: str = ""
    note: str = ""

    @property
    def rulings(self) -> tuple[tuple[str, Ruling | None], ...]:
        """What the published rule says, and what ours says, each with whose it is."""
        return ("Their rule", self.published), ("Ours", self.ours)

    @property
    def differs(self) -> bool:
        """Whether the two rules disagree."""
        return bool(self.ours and self.published and self.ours.kind != self.published.kind)


class ProgramSet(Message, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model's programs, at most one per problem; `left_out` names those that could not be judged, and why."""

    model: str
    asked_for: str
    left_out: Mapping[str, str]
    programs: tuple[Program, ...]

    @property
    def published_count(self) -> float | None:
        """How many problems of 87 its authors call solved with one sample; None where they say nothing of the set."""
        results = published.figures()["results"]
        return (
            results.of(self.model.removesuffix(" (preview)"), published.TOTAL)["pass@1"]
            if self.asked_for == "cuda"
            else None
        )

    @property
    def judged(self) -> tuple[Program, ...]:
        """The programs that have met a rule."""
        return tuple(program for program in self.programs if program.ours or program.published)

    @property
    def waiting(self) -> tuple[Program, ...]:
        """The programs that no rule has met yet."""
        return tuple(program for program in self.programs if not program.ours and not program.published)

    @property
    def counts(self) -> tuple[tuple[str, int, int], ...]:
        """Of each kind how many programs there are: by the published rule, and by ours."""
        by_rule = [
            Counter(ruling.kind if ruling else NOT_JUDGED for ruling in rulings)
            for rulings in zip(*((program.published, program.ours) for program in self.programs), strict=True)
        ]
        return tuple((kind, by_rule[0][kind], by_rule[1][kind]) for kind in KINDS)


class Verdicts(Message, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All sets, and what they were judged on."""

    judged_on: Mapping[str, str]
    sets: tuple[ProgramSet, ...]

    @property
    def differing(self) -> tuple[tuple[ProgramSet, Program], ...]:
        """The programs on which the rules differ, with their sets."""
        return tuple((one, program) for one in self.sets for program in one.programs if program.differs)


@cache
def verdicts() -> Verdicts:
    """What ships; raises ContractError where the file is damaged."""
    return Verdicts.from_json((published.FOLDER / "programs.json").read_bytes())
