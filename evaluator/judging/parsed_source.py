"""A submission's Python files as trees, each parsed once, within limits; and its files without comments.

Naming something in a comment is no use of it.
"""

import ast
import codecs
import io
import re
import tokenize
from dataclasses import dataclass, field

from evaluator.contract import Finding, SourceBundle, SourceFile, Verdict

MAX_PARTS = 150_000
"""So many nodes the trees of a submission may have together; ten thousand lines of Python have about as many."""

_BEGIN = re.compile(r"//|/\*")
_LINE_COMMENT = re.compile(r"//[^\n]*")
_NOT_NEWLINE = re.compile(r"[^\n]")


@dataclass(frozen=True, kw_only=True)
class ParsedSource:
    """Trees by path, or a finding about the first file that has none."""

    trees: dict[str, ast.Module] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()


def parse(bundle: SourceBundle) -> ParsedSource:
    """The trees of every Python file in `bundle`; findings are IMPORT_ERROR or LIMIT_EXCEEDED."""
    trees: dict[str, ast.Module] = {}
    parts = 0
    for file in bundle.files:
        if not file.path.endswith(".py"):
            continue
        if (words := _other_encoding(file.text)) is not None:
            return _refused(Verdict.IMPORT_ERROR, words, file)
        try:
            trees[file.path] = ast.parse(file.text)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            return _refused(Verdict.IMPORT_ERROR, _words(error), file, line=getattr(error, "lineno", None))
        parts += sum(1 for _ in ast.walk(trees[file.path]))
        if parts > MAX_PARTS:
            message = f"the Python files have more than {MAX_PARTS:,} names, numbers and operators together"
            return _refused(Verdict.LIMIT_EXCEEDED, message, file)
    return ParsedSource(trees=trees)


def _other_encoding(text: str) -> str | None:
    """A fault where a coding cookie makes an import read `text` otherwise than as UTF-8."""
    if text.startswith("\ufeff"):
        return "the file begins with a byte order mark; save it without"
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(text.encode("utf-8", "surrogatepass")).readline)
    except SyntaxError as error:
        return f"the file declares an encoding other than UTF-8: {error.msg}"
    return (
        None
        if codecs.lookup(encoding).name == "utf-8"
        else f"the file declares the encoding {encoding}; only UTF-8 is accepted"
    )


def _refused(verdict: Verdict, message: str, file: SourceFile, *, line: int | None = None) -> ParsedSource:
    return ParsedSource(findings=(Finding(verdict=verdict, message=message, file=file.path, line=line),))


def _words(error: Exception) -> str:
    if isinstance(error, SyntaxError):
        return f"syntax error: {error.msg}"
    return f"the file cannot be parsed: {error}" if str(error) else "the file is nested too deeply to be parsed"


def without_comments(file: SourceFile) -> str:
    """The text with comments blanked and every line where it was; CUDA inside Python strings loses its own as well."""
    code = _without_python_comments(file.text) if file.path.endswith(".py") else file.text
    return _without_c_comments(code)


def _without_python_comments(text: str) -> str:
    lines = text.splitlines()
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                row, column = token.start
                lines[row - 1] = lines[row - 1][:column]
    except (tokenize.TokenError, SyntaxError):
        return text
    return "\n".join(lines)


def _without_c_comments(text: str) -> str:
    """`text` with the comments of C blanked; one without an end stays. The work grows with the text alone."""
    parts: list[str] = []
    at = 0
    while (begin := _BEGIN.search(text, at)) is not None:
        end = _end(text, begin.start(), is_line=begin[0] == "//")
        if end < 0:
            # A later comment of this kind has no end either, but those to the end of a line have one.
            return (
                "".join(parts)
                + text[at : begin.start()]
                + _LINE_COMMENT.sub(lambda found: " " * len(found[0]), text[begin.start() :])
            )
        parts += [text[at : begin.start()], _NOT_NEWLINE.sub(" ", text[begin.start() : end])]
        at = end
    return "".join(parts) + text[at:]


def _end(text: str, begin: int, *, is_line: bool) -> int:
    """Where the comment that begins at `begin` ends; -1 where it does not."""
    if is_line:
        end = text.find("\n", begin)
        return len(text) if end < 0 else end
    end = text.find("*/", begin + 2)
    return -1 if end < 0 else end + 2
