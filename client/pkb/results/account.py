"""Who is calling, and what judging costs them."""

from datetime import datetime

from .result import Result


class Token(Result, frozen=True, kw_only=True):
    """The token of the call."""

    name: str
    prefix: str
    scopes: tuple[str, ...]
    expires_at: datetime


class Me(Result, frozen=True, kw_only=True):
    """Who is calling."""

    username: str
    queued: int
    queued_limit: int | None
    token: Token | None = None


class Price(Result, frozen=True, kw_only=True):
    """What one evaluation on a profile costs, in GPU-seconds."""

    gpus: int
    usual_gpu_s: float
    reserved_gpu_s: float
    at_most_gpu_s: float


class Forecast(Result, frozen=True, kw_only=True):
    """The cost of one more evaluation on a profile, and what is left for it; None if nothing limits it."""

    profile: str
    price: Price
    judgements: int | None
    remaining_gpu_s: float | None
    renews_at: datetime | None
    words: str


class Organisation(Result, frozen=True, kw_only=True):
    """Whose models and runs they are."""

    slug: str
    name: str
    role: str
    members: tuple[str, ...] = ()


class Quota(Result, frozen=True, kw_only=True):
    """GPU-seconds of an organisation over a window of days."""

    organisation: str
    window_days: int
    limit_gpu_s: float | None
    used_gpu_s: float
    reserved_gpu_s: float
    remaining_gpu_s: float | None
    next_release_at: datetime | None = None
