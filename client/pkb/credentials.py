"""The tokens of the sites one has signed in to, in a file that only its owner may read."""

import os
from pathlib import Path

import msgspec
import platformdirs

from .errors import UsageError
from .transport import site_address


class Credentials(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens by site; `default` is the site that was signed in to last."""

    default: str | None = None
    tokens: dict[str, str] = {}

    def with_token(self, site: str, token: str) -> "Credentials":
        """These and one more, whose site becomes the default."""
        return Credentials(default=site, tokens={**self.tokens, site: token})

    def without(self, site: str) -> "Credentials":
        """These without one site."""
        tokens = {name: token for name, token in self.tokens.items() if name != site}
        return Credentials(default=None if self.default == site else self.default, tokens=tokens)


def credentials_path() -> Path:
    """The folder of the tokens: PKB_CONFIG_DIR, or the system's folder for settings."""
    folder = os.environ.get("PKB_CONFIG_DIR")
    return (Path(folder) if folder else platformdirs.user_config_path("pkb")) / "credentials.json"


def load() -> Credentials:
    """What is stored; raises UsageError where the file cannot be read."""
    path = credentials_path()
    try:
        return msgspec.json.decode(path.read_bytes(), type=Credentials)
    except FileNotFoundError:
        return Credentials()
    except (OSError, msgspec.DecodeError, msgspec.ValidationError) as error:
        raise UsageError(f"{path} cannot be read ({error}). Delete it and run `pkb login` again.") from error


def store(credentials: Credentials) -> Path:
    """Write all of it, readable by its owner alone, at once or not at all; the path."""
    path = credentials_path()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(draft, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(credentials), indent=2) + b"\n")
    draft.replace(path)
    return path


def site_and_token(site: str | None, token: str | None) -> tuple[str, str | None]:
    """Which site to call and by which token: what was given, else what is stored; raises UsageError without a site."""
    stored = load()
    chosen = site_address(site) if site else stored.default
    if chosen is None:
        raise UsageError("No site is known. Run `pkb login https://...`, or give --site or PKB_SITE.")
    return chosen, token or stored.tokens.get(chosen)
