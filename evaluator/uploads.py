"""Uploads a report to the site's storage: one object, with the permission that came with the work."""

import http.client
import secrets
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import unquote, urlsplit

from evaluator.contract import Upload

TIMEOUT_S = 20.0


class UploadRefused(Exception):
    """The storage did not accept the object; then the report goes by the broker."""


def put(upload: Upload, content: bytes, *, within: str) -> None:
    """Put `content` under the permission `upload`.

    Args:
        upload: what the site sent.
        content: the object.
        within: the folder in which files may be written, where the permission is for a file; "" for none.

    Raises:
        UploadRefused: it was not accepted.
    """
    try:
        scheme = urlsplit(upload.url).scheme
    except ValueError as error:
        raise UploadRefused(f"{upload.url} is not an address") from error
    match scheme:
        case "file":
            _write(Path(unquote(urlsplit(upload.url).path)), content, within=within)
        case "http" | "https":
            _post(upload, content)
        case _:
            raise UploadRefused(f"uploads to {scheme!r} are not supported")


def _write(path: Path, content: bytes, *, within: str) -> None:
    # A message names the path, and must not make this process write elsewhere.
    if not within or not path.resolve().is_relative_to(Path(within).resolve()):
        raise UploadRefused(f"{path} is not below PKB_NODE_ARTEFACT_DIR={within}")
    draft = path.with_suffix(".draft")
    try:
        # Whoever may use the folder may use what is put there: the site reads and removes it as another user.
        mode = Path(within).stat().st_mode & 0o777
        _make(path.parent, mode)
        draft.write_bytes(content)
        draft.chmod(mode & 0o666)
        draft.rename(path)
    except OSError as error:
        raise UploadRefused(str(error)) from error


def _make(folder: Path, mode: int) -> None:
    """Make a folder and those above it that are missing, each with this mode whatever the umask is."""
    if folder.is_dir():
        return
    _make(folder.parent, mode)
    folder.mkdir(exist_ok=True)
    folder.chmod(mode)


def _post(upload: Upload, content: bytes) -> None:
    """The signed form, as browsers send one with a file (RFC 7578)."""
    border = secrets.token_hex(16)
    parts = [_field(border, name, value) for name, value in upload.fields.items()]
    head = f'--{border}\r\nContent-Disposition: form-data; name="file"; filename="report.json"\r\n\r\n'
    body = b"".join(parts) + head.encode() + content + f"\r\n--{border}--\r\n".encode()
    request = urllib.request.Request(  # noqa: S310 - the scheme was checked
        upload.url, data=body, headers={"Content-Type": f"multipart/form-data; boundary={border}"}
    )
    try:
        urllib.request.urlopen(request, timeout=TIMEOUT_S).close()  # noqa: S310 - as above
    except (urllib.error.URLError, http.client.HTTPException, OSError, ValueError) as error:
        raise UploadRefused(f"{urlsplit(upload.url).netloc} did not take the report: {error}") from error


def _field(border: str, name: str, value: str) -> bytes:
    return f'--{border}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
