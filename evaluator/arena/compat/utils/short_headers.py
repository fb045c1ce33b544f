"""Short headers in front of torch's widest ones, which make up most of a build's time.

Every extension includes torch/extension.h, and that includes torch's modules, optimisers, data loaders, autograd and
every operator. The folder `headers` holds files of the same names with tensors and Python bindings alone. What else a
source names is found in its text and included as well. They declare what torch's headers declare, or less: a source
that needs more does not compile with them, and is then compiled with torch's own.
"""

import functools
import re
from pathlib import Path

FOLDER = Path(__file__).parent / "headers"
"""Comes before torch's folders in the search for headers."""

NAMED = "named_by_the_source.h"
"""The file that the short headers include: what `includes_for` gives."""

_REPLACED = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"]torch/(?:all|extension|torch|types)\.h[>\"]", re.MULTILINE)
_OTHER_NAME = re.compile(r"\busing\s+namespace\s+(?:::\s*)?(?:at|torch)\b|\bnamespace\s+\w+\s*=")
_QUALIFIED, _WORD = re.compile(r"\b(?:at|torch)\s*::\s*(\w+)"), re.compile(r"[A-Za-z_]\w*")
_FACTORIES = "torch/csrc/autograd/generated/variable_factories.h"
_REGISTRATION = re.compile(r"\bTORCH_(?:LIBRARY|SELECTIVE)")


def help_with(source: str) -> bool:
    """Whether `source` includes a header that has a short form."""
    return _REPLACED.search(source) is not None


def includes_for(source: str, *, torch_headers: Path) -> str:
    """The include lines for what `source` names besides tensors and bindings.

    Args:
        source: CUDA C++.
        torch_headers: torch's folder `include`.
    """
    names = _names(source)
    found = [f"ATen/ops/{name}.h" for name in sorted(names & _operators(torch_headers))]
    # A factory of torch:: hides the one of at::, so neither is declared without the other.
    if not names.isdisjoint(_factories(torch_headers)):
        found.append(_FACTORIES)
    if _REGISTRATION.search(source):
        found.append("torch/library.h")
    return "".join(f"#include <{path}>\n" for path in found)


def _names(source: str) -> set[str]:
    """The names that may be of at:: or torch::; every word where the text gives those another name."""
    pattern = _WORD if _OTHER_NAME.search(source) else _QUALIFIED
    return set(pattern.findall(source))


@functools.cache
def _operators(torch_headers: Path) -> frozenset[str]:
    """The operators whose overloads lie in one header.

    Of some, such as `var`, further overloads lie in ATen/Functions.h. Without these `at::var(x, 0)` would compile and
    mean something else, so they are left out and do not compile.
    """
    more = (torch_headers / "ATen" / "Functions.h").read_text(encoding="utf-8")
    spread = re.findall(r"^inline .*?(\w+)\(", more, re.MULTILINE)
    return frozenset(path.stem for path in (torch_headers / "ATen" / "ops").glob("*.h")).difference(spread)


@functools.cache
def _factories(torch_headers: Path) -> frozenset[str]:
    text = (torch_headers / _FACTORIES).read_text(encoding="utf-8")
    return frozenset(re.findall(r"^inline at::Tensor (\w+)\(", text, re.MULTILINE))
