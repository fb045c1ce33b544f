"""A node's settings from its environment. A missing or wrong variable is named and stops the start."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from evaluator import logs
from evaluator.broker import FILES_SCHEME
from evaluator.broker.queues import is_redis
from evaluator.contract import MOST_BUILDERS
from evaluator.hardware import profiles
from evaluator.hardware.machines import MachineFileError
from evaluator.host import best_profile
from evaluator.host.machine import gpus
from evaluator.host.settings import DEFAULT_USERS

_FILE_PREFIXES = ("PKB_NODE_", "PKB_BROKER_", "PKB_SITE_URL")
ALLOW_UNSANDBOXED = "PKB_NODE_ALLOW_UNSANDBOXED"
THE_RISK = "submissions can harm this machine"
_SECRETS = ("PKB_NODE_KEY", "PKB_SECRET_KEY", "PKB_BROKER_URL", "PKB_DATABASE_URL")


class Misconfigured(ValueError):
    """The node cannot start like this; the message names the variable and the remedy."""


@dataclass(frozen=True, kw_only=True)
class NodeSettings:
    """The settings of a node.

    Attributes:
        key: the node's secret, as `manage.py node_add` printed it.
        profiles: the profile of each slot; a profile that is listed twice has two slots. "auto" stands for CPU ranks
            and the best profile of this machine's GPUs.
        site_url: the site that gives work, to which everything is sent.
        broker_url: where work comes from; `filesystem://` means the folder `broker_dir`.
        work_dir: where judges keep their files while they run; used by this node only.
        spool_dir: where reports wait until the site has them.
        heartbeat_s: seconds between two heartbeats.
        allow_unsandboxed: whether to judge where the machine has no sandbox at all; see `_allows_unsandboxed`.
        gpus: the minor numbers of the GPUs that the node may use, separated by commas; empty for all.
        builders: how many evaluations to compile during judging; None for as many as the processors outside timed
            ranks allow.
        users: the first and the last of the host users that sandboxes may run as, where the node runs as root.
        log_format: the format of lines to standard error: text or json.
        metrics_listen: where the node serves metrics to Prometheus, as host:port; empty for nowhere.
    """

    name: str
    key: str
    profiles: tuple[str, ...]
    site_url: str
    broker_url: str
    broker_dir: Path
    work_dir: Path
    spool_dir: Path
    heartbeat_s: float
    allow_unsandboxed: bool
    gpus: str = ""
    builders: int | None = None
    users: tuple[int, int] = DEFAULT_USERS
    log_format: str = "text"
    metrics_listen: str = ""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str], *, profiles_override: tuple[str, ...] = ()) -> Self:
        """The settings in PKB_NODE_*, PKB_BROKER_* and PKB_SITE_URL; those that are not set, from `$PKB_DATA_DIR/env`.

        Raises:
            Misconfigured: a variable is missing or wrong.
        """
        data_dir = Path(environment.get("PKB_DATA_DIR") or Path(__file__).resolve().parents[2] / "var")
        values = _from_file(data_dir / "env") | {name: value for name, value in environment.items() if value}
        name = _required(values, "PKB_NODE_NAME", "the name given to `manage.py node_add`")
        return cls(
            name=name,
            key=_required(values, "PKB_NODE_KEY", "the key printed by `manage.py node_add`"),
            profiles=_profiles(profiles_override or tuple(values.get("PKB_NODE_PROFILES", "").split(","))),
            site_url=_site_url(values),
            broker_url=_broker_url(values),
            broker_dir=Path(values.get("PKB_BROKER_DIR") or data_dir / "broker"),
            work_dir=Path(values.get("PKB_NODE_WORK_DIR") or data_dir / "work" / name),
            spool_dir=Path(values.get("PKB_NODE_SPOOL_DIR") or data_dir / "spool" / name),
            heartbeat_s=_seconds(values, "PKB_NODE_HEARTBEAT_SECONDS", default=5.0),
            allow_unsandboxed=_allows_unsandboxed(values, data_dir),
            gpus=_checked(
                values,
                gpus.CHOICE,
                "",
                lambda text: not text or all(number.strip().isdecimal() for number in text.split(",")),
                "is not a list of GPUs; write the numbers N of /dev/nvidiaN, separated by commas",
            ).replace(" ", ""),
            builders=_builders(values),
            users=_users(values),
            log_format=_checked(
                values,
                "PKB_NODE_LOG_FORMAT",
                "text",
                logs.FORMATS.__contains__,
                f"is not a format of log lines; use {' or '.join(logs.FORMATS)}",
            ),
            metrics_listen=_checked(
                values,
                "PKB_NODE_METRICS_LISTEN",
                "",
                _is_port_of_address,
                "is not an address; write it as 127.0.0.1:9105",
            ),
        )


def _allows_unsandboxed(values: Mapping[str, str], data_dir: Path) -> bool:
    """Whether the operator said so in the words of the risk, and everything holds that keeps it to themselves.

    Raises Misconfigured where the words are others, or a condition does not hold.
    """
    text = values.get(ALLOW_UNSANDBOXED, "")
    if not text:
        return False
    if text != THE_RISK:
        raise Misconfigured(
            f"{ALLOW_UNSANDBOXED}={text} does not name the risk. Remove it, and nothing is judged without a sandbox; "
            f'or write {ALLOW_UNSANDBOXED}="{THE_RISK}"'
        )
    host = values.get("PKB_BIND", "").rpartition(":")[0]
    lacks = [
        why
        for holds, why in (
            (os.geteuid() == 0, "root, to start submissions as another user"),
            (values.get("PKB_BROKER_URL", "filesystem://").startswith("filesystem:"), "no PKB_BROKER_URL"),
            (host in ("127.0.0.1", "[::1]", "localhost"), "`make run` with HOST=127.0.0.1"),
            (values.get("PKB_SIGN_UP") == "closed", "PKB_SIGN_UP=closed"),
            (data_dir.is_dir() and not data_dir.stat().st_mode & 0o077, f"`chmod 700 {data_dir}`"),
        )
        if not holds
    ]
    if lacks:
        raise Misconfigured(f"{ALLOW_UNSANDBOXED} is for a site that nobody else reaches. It needs: {'; '.join(lacks)}")
    return True


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment for the node's child processes."""
    return {name: value for name, value in environment.items() if name not in _SECRETS}


def _from_file(path: Path) -> dict[str, str]:
    """The node's own variables in the file that the embedded set-up writes; the site's are left out."""
    if not path.is_file():
        return {}
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    pairs = (line.partition("=") for line in lines if line.startswith(_FILE_PREFIXES))
    return {name.strip(): value.strip().strip("\"'") for name, _, value in pairs}


def _required(values: Mapping[str, str], name: str, meaning: str) -> str:
    if not values.get(name):
        raise Misconfigured(f"{name} is not set; put {meaning} into the environment")
    return values[name]


def _site_url(values: Mapping[str, str]) -> str:
    text = values.get("PKB_SITE_URL", "http://127.0.0.1:8000")
    try:
        parts = urlsplit(text)
        is_whole = parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.query and not parts.fragment
    except ValueError:
        is_whole = False
    if not is_whole:
        raise Misconfigured(f"PKB_SITE_URL={text} is not a site's address; write it as https://pkb.example.org")
    return text


def _broker_url(values: Mapping[str, str]) -> str:
    text = values.get("PKB_BROKER_URL", f"{FILES_SCHEME}://")
    if not (is_redis(text) or text.startswith(f"{FILES_SCHEME}:")):
        scheme = text.partition(":")[0][:20]
        raise Misconfigured(
            f"PKB_BROKER_URL begins with {scheme}:, and the broker is Redis; write it as "
            "rediss://node.NAME:<its password>@HOST:6380/0, as deploy/broker_credentials.py prints it"
        )
    return text


def _profiles(names: tuple[str, ...]) -> tuple[str, ...]:
    chosen = tuple(name.strip() for name in names if name.strip())
    try:
        known = ", ".join(profiles.profiles())
    except MachineFileError as error:
        raise Misconfigured(str(error)) from error
    if chosen == (best_profile.AUTO,):
        return tuple(dict.fromkeys((best_profile.ON_CPU, best_profile.here().profile)))
    if not chosen:
        raise Misconfigured(f"PKB_NODE_PROFILES is not set; name one profile per slot, separated by commas: {known}")
    for name in chosen:
        try:
            profiles.get(name)
        except profiles.UnknownProfile as error:
            raise Misconfigured(f"PKB_NODE_PROFILES: {error}") from error
    on_gpus = [profiles.get(name) for name in chosen if profiles.get(name).is_on_gpus]
    if len(on_gpus) > 1 and any(profile.measures_time for profile in on_gpus):
        raise Misconfigured(
            f"PKB_NODE_PROFILES={','.join(chosen)} has {len(on_gpus)} slots that would share GPUs and disturb each "
            "other's times; start one node for each, with PKB_NODE_GPUS=0,1,2,3 and so on"
        )
    return chosen


def _seconds(values: Mapping[str, str], name: str, *, default: float) -> float:
    text = values.get(name, str(default))
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise Misconfigured(f"{name}={text} is not a positive number of seconds")
    return seconds


def _builders(values: Mapping[str, str]) -> int | None:
    text = _checked(
        values,
        "PKB_NODE_BUILDERS",
        "auto",
        lambda text: text == "auto" or (text.isdecimal() and int(text) <= MOST_BUILDERS),
        f"is neither auto nor a number from 0 to {MOST_BUILDERS}; with 0 every slot compiles for itself",
    )
    return None if text == "auto" else int(text)


def _users(values: Mapping[str, str]) -> tuple[int, int]:
    text = values.get("PKB_NODE_USERS", "-".join(map(str, DEFAULT_USERS)))
    first, _, last = text.partition("-")
    if not (first.isdecimal() and last.isdecimal() and 0 < int(first) <= int(last) < 2**31):
        raise Misconfigured(
            f"PKB_NODE_USERS={text} is not a range of user numbers; write the first and the last, for example "
            "1900000000-1900000063"
        )
    return int(first), int(last)


def _is_port_of_address(text: str) -> bool:
    port = text.rpartition(":")[2]
    return not text or (port.isdecimal() and 0 < int(port) < 65_536)


def _checked(values: Mapping[str, str], name: str, default: str, is_good: Callable[[str], bool], why_not: str) -> str:
    """The variable `name` without spaces around it; where it is not good, the message says why not."""
    text = values.get(name, default).strip()
    if not is_good(text):
        raise Misconfigured(f"{name}={text} {why_not}")
    return text
