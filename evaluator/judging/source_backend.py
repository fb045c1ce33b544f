"""Which backends the text of a submission shows: what it imports, calls and writes as C++."""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evaluator.contract import Backend, SourceBundle

_CPLUSPLUS = {
    Backend.NVSHMEM: re.compile(r"\bnvshmemx?_\w+|\bnvshmemx?\.h\b"),
    Backend.NCCL_DEVICE: re.compile(r"\bnccl_device\.h\b|\bnccl(Lsa|Gin)\w*"),
    Backend.CUDA: re.compile(r"\b__global__\b|#include\s*[<\"](torch/extension|cuda_runtime|cuda|kittens)\.c?u?h[>\"]"),
}
"""Signs of each backend in CUDA C++, the most specific first."""

_CUDA_BUILDERS = ("torch.utils.cpp_extension", "utils.cuda_helpers", "utils.cuda_build")
_CUDA_FILES = (".cu", ".cuh", ".cpp", ".h", ".hpp")
_IMPORT = re.compile(r"^[ \t]*(?:import|from)[ \t]+([\w.]+)", re.MULTILINE)
# Blanks only: `\s` also takes the lines that follow, and from each of 100,000 empty ones all others would be looked at.


@dataclass(frozen=True, kw_only=True)
class _Text:
    """What one file imports, and the texts in it that may be C++."""

    imports: frozenset[str] = frozenset()
    kernels: tuple[str, ...] = ()

    def has(self, *modules: str) -> bool:
        """Whether it imports one of `modules`, or something of one."""
        return any(name == module or name.startswith(f"{module}.") for name in self.imports for module in modules)


def shown_backends(bundle: SourceBundle) -> tuple[Backend, ...]:
    """Every backend that the text uses, Triton first, then the most specific; `pytorch` alone where it uses none.

    CUDA is left out where a backend that is itself written in CUDA C++ explains the kernels.
    """
    texts = [_read(file.path, file.text) for file in bundle.files]
    kernels = "\n".join(kernel for text in texts for kernel in text.kernels)
    found = [backend for backend, words in _CPLUSPLUS.items() if words.search(kernels)]
    if not found and any(text.has(*_CUDA_BUILDERS) for text in texts):
        found = [Backend.CUDA]
    if len(found) > 1 and Backend.CUDA in found:
        found.remove(Backend.CUDA)
    if any(text.has("triton") for text in texts):
        found.insert(0, Backend.TRITON)
    return tuple(found) or (Backend.PYTORCH,)


def judged_as(shown: Sequence[Backend], *, asked: Backend) -> Backend:
    """The backend to judge a program as: `asked` where its text shows that one too, else the first that it shows."""
    return asked if asked in shown else shown[0]


def _read(path: str, text: str) -> _Text:
    if path.endswith(_CUDA_FILES):
        return _Text(kernels=(text,))
    if not path.endswith(".py"):
        return _Text()
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # An answer cut off in the middle still shows what it was going to be.
        return _Text(imports=frozenset(_IMPORT.findall(text)), kernels=(text,))
    return _Text(imports=frozenset(_imports(tree)), kernels=tuple(_strings(tree)))


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _strings(tree: ast.Module) -> Iterator[str]:
    """Every literal that may hold C++; docstrings and comments may name kernels that do not exist."""
    statements = (node.value for node in ast.walk(tree) if isinstance(node, ast.Expr))
    docstrings = {id(value) for value in statements if isinstance(value, ast.Constant)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value
