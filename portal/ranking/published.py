"""Results that others have published: data with source and date, never mixed with what this site measured."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class PublishedResult:
    """How many of the 87 problems a model solved, as published; `faster` is None where no number was given."""

    model: str
    setting: str
    correct: int
    faster: int | None
    source: str
    date: str
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class PublishedKernel:
    """A generated kernel's published speedup over the public reference."""

    workload: str
    speedup: str
    source: str
    date: str


PROBLEMS = 87
SETTING = "4 H100, 100 randomised runs per problem, against the public references"
"""Where the published figures were measured, as the sources say it."""

_TALK = "Talk by S. Arora"
_BLOG = "Together AI blog, through third-party digests"
_PAPER = "Paper, abstract (OpenReview 4IGomFc9dx)"

RESULTS = (
    PublishedResult(
        model="GPT-5.5",
        setting="one sample",
        correct=28,
        faster=22,
        source=_TALK,
        date="August 2026",
        note="The paper's abstract reports 32 % correct and 25 % faster than the reference.",
    ),
    PublishedResult(
        model="GPT-5.5",
        setting="best of three samples",
        correct=36,
        faster=None,
        source=f"{_TALK}; {_BLOG}",
        date="June to August 2026",
        note="At most 31 % are faster than the reference (fast_1@3).",
    ),
    PublishedResult(
        model="Gemini 3 Pro",
        setting="one sample",
        correct=24,
        faster=None,
        source=_BLOG,
        date="23 June 2026",
    ),
    PublishedResult(
        model="Gemini 3 Pro",
        setting="agentic harness: compile, run, inspect failures, revise",
        correct=35,
        faster=26,
        source=_BLOG,
        date="23 June 2026",
        note="Levels off after about 20 refinement steps.",
    ),
)

KERNELS = (
    PublishedKernel(workload="NeMo-RL vocab-parallel log-probabilities", speedup="2.06", source=_PAPER, date="2026"),
    PublishedKernel(workload="Hyena, context parallel", speedup="1.72", source=_PAPER, date="2026"),
    PublishedKernel(workload="SAM 3 mask IoU suppression", speedup="1.40", source=_PAPER, date="2026"),
)
