"""From the bytes of a bulk upload to attempts: JSON Lines or a zip, read piece by piece.

A line that cannot be an attempt becomes a refusal for that line alone. A source that no judge needs to see is an
attempt all the same, with the verdict that its text decides: it is what the model wrote.
"""

import hashlib
import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import IO, Any

from django.conf import settings

from evaluator.contract import Backend, Mode, SourceBundle, Verdict
from evaluator.judging.source_files import ARCHIVE_ERRORS, is_folder
from portal.core.errors import Refusal, check_choice
from portal.runs.models import ATTEMPT_MODES
from portal.submissions import uploads

MAX_LINE_BYTES = 4 * 1024 * 1024
MAX_ARCHIVED_FILES = 20_000
_CHUNK = 256 * 1024
_COUNTS = {"sample": 9_999, "step": 999, "tokens_in": 2_000_000_000, "tokens_out": 2_000_000_000}
_AMOUNTS = ("cost_usd", "seconds")
_MOST_AMOUNT = 1_000_000_000
_KNOWN = ("problem", "sample", "step", "source", "files", "mode", "backend", "key", *_COUNTS, *_AMOUNTS, "trajectory")
_ARCHIVED = re.compile(r"(?P<problem>[A-Za-z0-9_-]+)/(?P<sample>\d{1,4})(?:/(?P<step>\d{1,3}))?/(?P<path>.+)")


@dataclass(frozen=True, kw_only=True)
class NewAttempt:
    """One attempt as it came. `files` is None where the source is nothing that could be stored; `fault` says why.

    `backend` is what it is written in where that is not what the run was asked for.
    """

    problem: str
    sample: int = 0
    step: int = 0
    mode: str = Mode.RANKED.value
    backend: str = ""
    key: str
    files: SourceBundle | None
    source_digest: str
    fault: tuple[Verdict, str] | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    cost_usd: float | None = None
    seconds: float | None = None
    trajectory: str = field(default="", repr=False)


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line of an upload: an attempt, or the refusal of it. `key` is what could be read of it."""

    number: int
    key: str
    attempt: NewAttempt | None = None
    refusal: Refusal | None = None


def attempt_from(data: Any) -> NewAttempt:
    """The attempt that a JSON object describes; raises Refusal for a field that is missing, unknown or wrong."""
    if not isinstance(data, Mapping):
        raise Refusal("", data, "This is not a JSON object.", "Send an object with problem and source.")
    for name in data:
        if name not in _KNOWN:
            raise Refusal(str(name), data[name], "There is no such field.", f"Choose one of {', '.join(_KNOWN)}.")
    problem = _text(data, "problem", max_length=100)
    if not problem:
        raise Refusal("problem", "", "The attempt names no problem.", "Give the slug of a problem.")
    numbers: dict[str, Any] = {name: _number(data, name, int, most, f"{most}") for name, most in _COUNTS.items()}
    numbers |= {name: _number(data, name, int | float, _MOST_AMOUNT, f"{_MOST_AMOUNT:,}") for name in _AMOUNTS}
    sample, step = numbers.pop("sample") or 0, numbers.pop("step") or 0
    mode = _text(data, "mode", max_length=20) or Mode.RANKED.value
    check_choice("mode", mode, ATTEMPT_MODES)
    backend = _text(data, "backend", max_length=20)
    if backend:
        check_choice("backend", backend, Backend)
    files, digest, fault = _source(data)
    return NewAttempt(
        problem=problem,
        sample=sample,
        step=step,
        mode=mode,
        backend=backend,
        key=_key(data) or f"{problem}/{sample}/{step}",
        files=files,
        source_digest=digest,
        fault=fault,
        trajectory=_trajectory(data),
        **numbers,
    )


def read_lines(stream: IO[bytes]) -> Iterator[Line]:
    """Every line of a JSON Lines upload that is not blank, one at a time."""
    for number, raw in enumerate(_split(stream), start=1):
        yield _line(number, raw)


def read_archive(stream: IO[bytes], *, name: str = "upload.zip") -> Iterator[Line]:
    """Every attempt of a zip with SLUG/SAMPLE/[STEP/]solution.py, in the order of their paths.

    Raises:
        Refusal: the archive cannot be read, or holds too many files.
    """
    with opened(stream, name=name) as archive:
        groups: dict[tuple[str, int, int], dict[str, zipfile.ZipInfo]] = {}
        strangers = []
        for member in members_of(archive, name=name):
            match = _ARCHIVED.fullmatch(member.filename)
            if match is None:
                strangers.append(member.filename)
                continue
            place = (match["problem"], int(match["sample"]), int(match["step"] or 0))
            groups.setdefault(place, {})[match["path"]] = member
        for number, (place, files) in enumerate(sorted(groups.items()), start=1):
            yield _archived(number, archive, place, files)
        for number, path in enumerate(strangers, start=len(groups) + 1):
            refusal = Refusal(
                "path",
                path,
                "This path does not name an attempt.",
                "Use SLUG/SAMPLE/solution.py or SLUG/SAMPLE/STEP/solution.py.",
            )
            yield Line(number=number, key=path[:150], refusal=refusal)


def opened(stream: IO[bytes], *, name: str) -> zipfile.ZipFile:
    """The archive that `stream` holds; raises Refusal."""
    try:
        return zipfile.ZipFile(stream)
    except ARCHIVE_ERRORS as error:
        raise Refusal(
            "file", name, "This is not a readable .zip file.", "Pack it again as an ordinary .zip."
        ) from error


def members_of(archive: zipfile.ZipFile, *, name: str) -> list[zipfile.ZipInfo]:
    """The files of an archive, folders and the droppings of file managers left out; raises Refusal (413)."""
    members = [
        member
        for member in archive.infolist()
        if not is_folder(member) and "__MACOSX" not in member.filename and not member.filename.endswith(".DS_Store")
    ]
    if len(members) > MAX_ARCHIVED_FILES:
        message = f"The archive holds {len(members)} files."
        raise Refusal("file", name, message, f"Send at most {MAX_ARCHIVED_FILES} files.", status=413)
    return members


def read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """The content of a file of an archive, never more than a submission may have and one byte; raises Refusal."""
    limit = settings.SUBMISSION_MAX_BYTES + 1
    uploads.check_packing(member)
    try:
        with archive.open(member) as opened_member:
            return opened_member.read(limit)
    except ARCHIVE_ERRORS as error:
        message = "This file of the archive is damaged or encrypted."
        raise Refusal("path", member.filename, message, "Pack it again without a password.") from error


def static_verdict(files: Mapping[str, str]) -> tuple[SourceBundle | None, str, tuple[Verdict, str] | None]:
    """The bundle of an attempt's files, the digest of what came, and the verdict where there is no bundle.

    Raises:
        Refusal: a path is none that a submission may have, which is the uploader's doing, not the model's.
    """
    plain = "".join(f"{path}\0{text}\0" for path, text in sorted(files.items()))
    digest = hashlib.sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()
    try:
        if set(files) == {SourceBundle.ENTRY}:
            bundle = uploads.bundle_from_text(files[SourceBundle.ENTRY])
        else:
            bundle = uploads.bundle_from_files(files)
    except uploads.PathRefused:
        raise
    except UnicodeEncodeError:
        return None, digest, (Verdict.IMPORT_ERROR, "The source is not UTF-8 text.")
    except Refusal as refusal:
        verdict = Verdict.LIMIT_EXCEEDED if refusal.status == 413 else Verdict.IMPORT_ERROR
        return None, digest, (verdict, refusal.message)
    return bundle, bundle.digest, None


def _source(data: Mapping[str, Any]) -> tuple[SourceBundle | None, str, tuple[Verdict, str] | None]:
    if ("source" in data) == ("files" in data):
        raise Refusal("source", "", "Send either source or files.", "Add the text of solution.py as source.")
    if "source" in data:
        return static_verdict({SourceBundle.ENTRY: _text(data, "source", max_length=None)})
    files = data["files"]
    if not isinstance(files, Mapping) or not all(isinstance(text, str) for text in files.values()) or not files:
        raise Refusal("files", files, "This is not an object of texts by path.", 'Send {"solution.py": "..."}.')
    return static_verdict(files)


def _text(data: Mapping[str, Any], name: str, *, max_length: int | None) -> str:
    value = data.get(name, "")
    if not isinstance(value, str):
        raise Refusal(name, value, "This is not text.", "Send a string.")
    # JSON may carry one half of a pair of surrogates, which cannot be written out.
    is_unicode = value.encode("utf-8", "replace").decode() == value
    if max_length is not None and (len(value) > max_length or "\0" in value or not is_unicode):
        message = f"This is longer than {max_length} characters, or contains NUL or an incomplete character."
        raise Refusal(name, value, message, "Shorten or correct it.")
    return value


def _key(data: Mapping[str, Any]) -> str:
    key = _text(data, "key", max_length=150)
    if not key.isprintable():
        raise Refusal("key", repr(key), "The key has characters that cannot be printed.", "Use printable characters.")
    return key


def _number(data: Mapping[str, Any], name: str, kind: Any, most: int, shown: str) -> Any:
    value = data.get(name)
    # The comparison is false of NaN as well; whole numbers may be too large for isfinite.
    if value is None or (isinstance(value, kind) and not isinstance(value, bool) and 0 <= value <= most):
        return value
    what = "a whole number" if kind is int else "an amount"
    raise Refusal(name, value, f"This is not {what} from 0 to {shown}.", "Correct it or leave it out.")


def _trajectory(data: Mapping[str, Any]) -> str:
    text = _text(data, "trajectory", max_length=None)
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_TRAJECTORY_BYTES:
        limit = MAX_TRAJECTORY_BYTES // 1024
        message = f"The trajectory has {size} bytes; the limit is {limit} KiB."
        raise Refusal("trajectory", f"{size} bytes", message, "Keep only its beginning and its end.", status=413)
    return redact(text.encode("utf-8", "replace").decode().replace("\0", ""))


def _line(number: int, raw: bytes) -> Line:
    key = ""
    try:
        data = _decoded(raw)
        key = str(data.get("key") or "")[:150] if isinstance(data, Mapping) else ""
        key = key.encode("utf-8", "replace").decode()
        attempt = attempt_from(data)
    except Refusal as refusal:
        return Line(number=number, key=key, refusal=refusal)
    except RecursionError:
        # Just shallow enough to be read, and too deep to be written out in the refusal of it.
        deep = Refusal("", "", "The line is nested too deeply.", "Send an object with problem and source.")
        return Line(number=number, key=key, refusal=deep)
    return Line(number=number, key=attempt.key, attempt=attempt)


def _decoded(raw: bytes) -> Any:
    if len(raw) > MAX_LINE_BYTES:
        limit = MAX_LINE_BYTES // 1024 // 1024
        raise Refusal("", f"{len(raw)} bytes", f"The line is longer than {limit} MiB.", "Shorten it.", status=413)
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        text = raw[:80].decode("utf-8", "replace")
        raise Refusal("", text, f"The line is not JSON: {error}.", "Write one JSON object per line.") from error


def _split(stream: IO[bytes]) -> Iterator[bytes]:
    """The lines of a stream that are not blank; of one that is too long only the beginning, which says so."""
    rest, is_cut = b"", False
    while chunk := stream.read(_CHUNK):
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            if line.strip() and not is_cut:
                yield line
            is_cut = False
        if len(rest) > MAX_LINE_BYTES:
            if not is_cut:
                yield rest
            rest, is_cut = b"", True
    if rest.strip() and not is_cut:
        yield rest


def _archived(
    number: int, archive: zipfile.ZipFile, place: tuple[str, int, int], members: Mapping[str, zipfile.ZipInfo]
) -> Line:
    problem, sample, step = place
    key = f"{problem}/{sample}/{step}"
    try:
        bundle, digest, fault = static_verdict(_unpacked(archive, members))
    except Refusal as refusal:
        return Line(number=number, key=key, refusal=refusal)
    attempt = NewAttempt(
        problem=problem, sample=sample, step=step, key=key, files=bundle, source_digest=digest, fault=fault
    )
    return Line(number=number, key=key, attempt=attempt)


def _unpacked(archive: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo]) -> dict[str, str]:
    """The texts of one attempt's files: no more of them than it takes to see that they are too many or too large."""
    files: dict[str, str] = {}
    total = 0
    for path, member in islice(members.items(), uploads.MAX_FILES + 1):
        content = read_member(archive, member)
        files[path] = content.decode("utf-8", "surrogateescape")
        total += len(content)
        if total > settings.SUBMISSION_MAX_BYTES:
            break
    return files


REDACTED = "[redacted]"
MAX_TRAJECTORY_BYTES = 64 * 1024

# Nothing here may look ahead without a bound from every character: a trajectory that is made for it would take a web
# process ten seconds.
_CREDENTIALS = re.compile(
    r"""
    -----BEGIN[ ][A-Z ]*PRIVATE[ ]KEY-----.*?(?:-----END[ ][A-Z ]*PRIVATE[ ]KEY-----|\Z)  # cut off or not
    | \bpkb_[A-Za-z0-9_-]{8,}                        # this site's tokens
    | \b(?:sk|rk|pk|xai|gsk|hf|r8)[-_][A-Za-z0-9_-]{12,}  # keys of model vendors and payment services
    | \bgh[pousr]_[A-Za-z0-9]{20,} | \bgithub_pat_\w{20,} | \bglpat-[\w-]{16,}
    | \b(?:AKIA|ASIA)[A-Z0-9]{16}\b | \bAIza[\w-]{30,} | \bxox[abeoprs]-[\w-]{10,}
    | \beyJ[\w-]{8,512}\.[\w-]{8,8192}\.[\w-]{8,}    # a JSON web token
    """,
    re.VERBOSE | re.DOTALL,
)
# A value after a keyword: the keyword stays, so that the reader sees what was there.
_ANNOUNCED = re.compile(
    r"""(?ix)
    ( \b (?: authorization
          | (?:\w+[-_])? (?: api[-_]?key | access[-_]?key | secret (?:[-_]?key)? | token | passw(?:or)?d ) )
      ["']? \s* [:=] \s* (?: (?:bearer|basic)\s+ )? ["']? )
    ( [^\s"',;&]{6,} )
    """
)
_USER_IN_ADDRESS = re.compile(r"(?P<scheme>\b[a-z][a-z0-9+.-]{0,30}://)[^\s/@:]+:[^\s/@]+@", re.IGNORECASE)


def redact(text: str) -> str:
    """`text` with `[redacted]` instead of keys, tokens, passwords and private keys that are recognisable as such."""
    text = _CREDENTIALS.sub(REDACTED, text)
    text = _ANNOUNCED.sub(lambda match: f"{match[1]}{REDACTED}", text)
    return _USER_IN_ADDRESS.sub(lambda match: f"{match['scheme']}{REDACTED}@", text)
