"""The request to a judge: a source, a problem, a mode."""

import hashlib
from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from evaluator.contract.base import ContractError, Message, Sentence
from evaluator.contract.findings import Verdict


class Backend(StrEnum):
    """What a submission is written in. No profile judges `parallelkittens` any more: only older records hold it."""

    PYTORCH = "pytorch"
    CUDA = "cuda"
    TRITON = "triton"
    PARALLELKITTENS = "parallelkittens"
    NVSHMEM = "nvshmem"
    NCCL_DEVICE = "nccl_device"


class Mode(StrEnum):
    """How much of the judging an evaluation does, and whether it counts.

    `check` verifies, `profile` also records the reference and lists machine code, `benchmark` also times, and `ranked`
    also counts. `sweep` times at the points of an axis, in place of the sizes, and gives no score. `published` compares
    and times as the published harness does: its verdict is by another rule, and nothing of it counts.
    """

    CHECK = "check"
    PROFILE = "profile"
    BENCHMARK = "benchmark"
    RANKED = "ranked"
    SWEEP = "sweep"
    PUBLISHED = "published"

    @property
    def is_timed(self) -> bool:
        """Whether the submission is timed against the reference."""
        return self.is_scored or self in (Mode.SWEEP, Mode.PUBLISHED)

    @property
    def is_scored(self) -> bool:
        """Whether a pass has a score."""
        return self in (Mode.BENCHMARK, Mode.RANKED)


class SourceFile(Message, frozen=True, kw_only=True):
    """One text file of a submission; `path` is relative, with forward slashes."""

    path: str
    text: str


class SourceBundle(Message, frozen=True, kw_only=True):
    """All files of a submission, `solution.py` among them, sorted by path."""

    files: tuple[SourceFile, ...]

    ENTRY = "solution.py"

    @property
    def digest(self) -> str:
        """SHA-256 over names and texts, in hexadecimal: the identity of the source."""
        digest = hashlib.sha256()
        for file in self.files:
            content = file.text.encode()
            digest.update(f"{file.path}\0{len(content)}\0".encode())
            digest.update(content)
        return digest.hexdigest()

    @property
    def entry(self) -> str:
        """The text of `solution.py`; raises ContractError where there is none."""
        for file in self.files:
            if file.path == self.ENTRY:
                return file.text
        raise ContractError(f"the submission has no {self.ENTRY}")


Attempt = Annotated[int, Meta(ge=1, le=1000)]


class EarlierTry(Message, frozen=True, kw_only=True):
    """A try of an evaluation that ended through no fault of its author's, and why.

    `verdict` is None where no report came, as when a node was lost.
    """

    attempt: Attempt
    verdict: Verdict | None = None
    reason: Sentence


_CARDS_DTYPE = "bfloat16"
"""The dtype that a problem card calls `input`."""


class EvaluationRequest(Message, frozen=True, kw_only=True):
    """Everything a judge needs to know about one evaluation.

    `sizes` empty means the sizes that the profile prescribes for the mode; in mode sweep they are points of an axis.
    `dtype` None means the card's. `earlier` holds the tries before this one. `regime` names the one regime of the
    problem that all calls shall have, in check mode alone; "" for calls of every kind.
    """

    evaluation_id: str
    problem: str
    revision: str
    source: SourceBundle
    backend: Backend
    profile: str
    mode: Mode
    sizes: tuple[str, ...] = ()
    dtype: str | None = None
    attempt: Attempt = 1
    earlier: tuple[EarlierTry, ...] = ()
    regime: str = ""

    @property
    def input_dtype(self) -> str:
        """The dtype of the problem's inputs: the one asked for, else the card's."""
        return self.dtype or _CARDS_DTYPE

    def __post_init__(self) -> None:
        if self.regime and self.mode is not Mode.CHECK:
            raise ValueError(f"a single regime ({self.regime!r}) can be judged in mode check, not in {self.mode.value}")
