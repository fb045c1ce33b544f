"""Problems, and the hardware that they are judged on."""

from .result import Result


class ProblemBrief(Result, frozen=True, kw_only=True):
    """A problem as a list shows it."""

    number: int
    slug: str
    title: str
    summary: str
    block: str
    parallelism: tuple[str, ...]
    profiles: tuple[str, ...]
    revision: str
    is_open: bool
    url: str


class Problem(ProblemBrief, frozen=True, kw_only=True):
    """A problem with everything needed to solve it."""

    signature: str
    statement: str
    reference: str
    starters: dict[str, str]
    groups: str
    world_size_rule: str
    origin: str | None = None
    notes: tuple[str, ...] = ()


class Profile(Result, frozen=True, kw_only=True):
    """Hardware and world size together."""

    name: str
    title: str
    world_size: int
    backends: tuple[str, ...]
    sizes: dict[str, tuple[str, ...]]
    is_ranked_by_speed: bool
    slots_online: int


class Prompt(Result, frozen=True, kw_only=True):
    """The task as a model is given it."""

    problem: str
    revision: str
    backend: str
    profile: str
    version: str
    digest: str
    text: str
