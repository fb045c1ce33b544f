"""The corpus of cheats: programs of `cheats/` with what their docstrings say of them, and how they are varied."""

import ast
import platform
import random
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from evaluator.contract import Backend, EvaluationRequest, Mode, SourceBundle, SourceFile, Verdict
from evaluator.hardware.profiles import Profile
from problems import registry

CHEATS = Path(__file__).parent / "cheats"
_TWIN = "_twin"
_VARIED = re.compile(r"^(?P<name>_\w+ = )(?P<value>[\d._]+)(?P<mark>  # varied )(?P<low>[\d.]+) to (?P<high>[\d.]+)$")


@dataclass(frozen=True, kw_only=True)
class Program:
    """One program. `judged` is empty where the whole judge runs it, else the part of the judge that looks at it.

    `needs` may name ranks ("GPUs" or "CPU ranks") and a processor, as `platform.machine` names it. One that
    `forges_time` has its ranks report shorter times than its calls take: it may pass, and must not gain by it.
    """

    name: str
    text: str
    title: str
    problem: str
    mode: Mode
    accepted: frozenset[Verdict]
    sizes: tuple[str, ...]
    judged: str
    needs: frozenset[str]
    backend: Backend
    forges_time: bool

    @property
    def is_twin(self) -> bool:
        """Whether it is honest."""
        return self.name.endswith(_TWIN)

    @property
    def is_runnable(self) -> bool:
        """Whether CPU ranks of this machine can run it: the processor is the one it was written for."""
        return self.needs <= {"CPU ranks", platform.machine()}

    def runs_on(self, profile: Profile) -> bool:
        """Whether the whole judge runs it on `profile`, on this machine's processor."""
        ranks = "GPUs" if profile.device == "cuda" else "CPU ranks"
        return not self.judged and self.needs <= {ranks, platform.machine()}

    def request(self, *, text: str | None = None, profile: str = "cpux2") -> EvaluationRequest:
        """A request to judge it, or a variation of it."""
        return EvaluationRequest(
            evaluation_id=self.name,
            problem=self.problem,
            revision=registry.revision(self.problem),
            source=SourceBundle(files=(SourceFile(path="solution.py", text=text or self.text),)),
            backend=self.backend,
            profile=profile,
            mode=self.mode,
            sizes=self.sizes,
        )


@cache
def programs() -> dict[str, Program]:
    """Every program by name."""
    return {path.stem: _read(path) for path in sorted(CHEATS.glob("*.py")) if path.stem != "__init__"}


def varied(text: str, dice: random.Random) -> str:
    """The same program with other counts and other private names: a check has to see the class, not the program."""
    lines = [_with_other_value(line, dice) for line in text.splitlines()]
    text = "\n".join(lines) + "\n"
    names = set(re.findall(r"^(?:def |class |for )?(_[a-z]\w*)\b", text, flags=re.MULTILINE | re.IGNORECASE))
    for name in sorted(names):
        text = re.sub(rf"(?<![\w.]){name}\b", f"{name}_{dice.randrange(10**6)}", text)
    return text


def _with_other_value(line: str, dice: random.Random) -> str:
    found = _VARIED.match(line)
    if not found:
        return line
    low, high = found["low"], found["high"]
    is_real = "." in low
    value = f"{dice.uniform(float(low), float(high)):.4f}" if is_real else str(dice.randint(int(low), int(high)))
    return f"{found['name']}{value}{found['mark']}{low} to {high}"


def _read(path: Path) -> Program:
    text = path.read_text(encoding="utf-8")
    described = ast.get_docstring(ast.parse(text)) or ""
    fields = dict(
        re.findall(r"^(Problem|Mode|Accepted|Sizes|Judged|Needs|Backend|Forges): (.+)$", described, flags=re.MULTILINE)
    )
    return Program(
        name=path.stem,
        text=text,
        title=described.partition("\n")[0],
        problem=fields["Problem"],
        mode=Mode(fields["Mode"]),
        accepted=frozenset(Verdict(word) for word in fields["Accepted"].split(", ")),
        sizes=tuple(fields["Sizes"].split(", ")) if "Sizes" in fields else (),
        judged=fields.get("Judged", ""),
        needs=frozenset(fields["Needs"].split(", ") if "Needs" in fields else ()),
        backend=Backend(fields.get("Backend", "pytorch")),
        forges_time=fields.get("Forges") == "time",
    )
