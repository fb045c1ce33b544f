"""The changes between two sources, line by line, within a budget.

A helper process without settings imports this, so no model may come in.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from evaluator.contract import SourceBundle
from portal.catalog.highlighting import MOST_LINES, visible
from portal.core.helper import Helper

CONTEXT_LINES = 3
MAX_LINES = 4000
"""Files longer than this are not compared line by line."""

# Lines that repeat make it cubic: 4,000 of them take minutes.
_helper = Helper(seconds=1)


@dataclass(frozen=True, kw_only=True)
class DiffLine:
    """One line of a comparison; `kind` is `same`, `added`, `removed` or `gap`, numbers are None where it is not."""

    kind: str
    old: int | None
    new: int | None
    text: str


@dataclass(frozen=True, kw_only=True)
class FileDiff:
    """What changed in one file, with a few lines around it."""

    path: str
    lines: tuple[DiffLine, ...]
    added: int
    removed: int
    is_too_long: bool = False


def changes(old: SourceBundle | None, new: SourceBundle | None) -> list[FileDiff] | None:
    """Every file that differs; None where the reader may not read one of the two."""
    return compare(old, new) if old is not None and new is not None else None


def compare(old: SourceBundle, new: SourceBundle) -> list[FileDiff]:
    """Every file that differs, `solution.py` first; those beyond the budget are too long."""
    before = {file.path: file.text for file in old.files}
    after = {file.path: file.text for file in new.files}
    paths = sorted(before.keys() | after.keys(), key=lambda path: (path != SourceBundle.ENTRY, path))
    pairs = {path: (before.get(path, ""), after.get(path, "")) for path in paths if before.get(path) != after.get(path)}
    short = [path for path, texts in pairs.items() if max(text.count("\n") for text in texts) <= MAX_LINES]
    compared = dict(zip(short, _helper.each(_compared, [pairs[path] for path in short]), strict=False))
    return list(_within_a_page(pairs, compared))


def _within_a_page(paths: Iterable[str], compared: Mapping[str, tuple[DiffLine, ...]]) -> Iterator[FileDiff]:
    room = MOST_LINES
    for path in paths:
        lines = compared.get(path)
        if lines is None or len(lines) > room:
            yield FileDiff(path=path, lines=(), added=0, removed=0, is_too_long=True)
            continue
        room -= len(lines)
        added, removed = (sum(line.kind == kind for line in lines) for kind in ("added", "removed"))
        yield FileDiff(path=path, lines=lines, added=added, removed=removed)


def _compared(texts: tuple[str, str]) -> tuple[DiffLine, ...]:
    before, after = (visible(text).removesuffix("\n").split("\n") if text else [] for text in texts)
    return tuple(_diff_lines(before, after))


def _diff_lines(before: Sequence[str], after: Sequence[str]) -> Iterator[DiffLine]:
    groups = SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes(CONTEXT_LINES)
    for number, group in enumerate(groups):
        if number:
            yield DiffLine(kind="gap", old=None, new=None, text="")
        for tag, old_start, old_end, new_start, new_end in group:
            if tag == "equal":
                for offset in range(old_end - old_start):
                    old, new = old_start + offset, new_start + offset
                    yield DiffLine(kind="same", old=old + 1, new=new + 1, text=before[old])
                continue
            for old in range(old_start, old_end):
                yield DiffLine(kind="removed", old=old + 1, new=None, text=before[old])
            for new in range(new_start, new_end):
                yield DiffLine(kind="added", old=None, new=new + 1, text=after[new])
