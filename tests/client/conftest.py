"""A whole site in processes of its own, and the `pkb` command and Python client as their users run them."""

import io
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pkb import Client
from pkb.cli import main
from tests.stack import START_S, Stack, wait_until

SCOPES = ["read", "submit", "runs:read", "runs:write"]
MAKE_USER = """
from portal.accounts import actions
user = actions.sign_up(username={name!r}, password="a long pass phrase")
print(actions.create_token(user, name="tests", scopes={scopes!r}, lifetime_days=1)[1])
"""


@dataclass(frozen=True, kw_only=True)
class Site:
    """A running site and somebody who may do everything there."""

    url: str
    token: str
    stack: Stack

    def new_token(self, name: str, *scopes: str) -> str:
        """The token of a new user."""
        return new_token(self.stack, name, list(scopes) or SCOPES)


def new_token(stack: Stack, name: str, scopes: list[str]) -> str:
    """The token of a new user."""
    return stack.manage("shell", "-v", "0", "-c", MAKE_USER.format(name=name, scopes=scopes)).strip().splitlines()[-1]


@pytest.fixture(scope="session")
def site(tmp_path_factory) -> Iterator[Site]:
    """Web, dispatcher and a node with a cpux2 slot, for every test here."""
    limits = {"PKB_MAX_QUEUED_PER_AUTHOR": "5000", "PKB_RESERVED_SECONDS": "30"}
    with Stack(tmp_path_factory.mktemp("client-site"), environment=limits) as stack:
        stack.migrate()
        stack.start_all()
        site = Site(url=stack.url, token=new_token(stack, "alice", SCOPES), stack=stack)
        with Client(site.url) as anyone:
            online = lambda: [profile.name for profile in anyone.profiles() if profile.slots_online]  # noqa: E731
            wait_until(online, what=lambda: f"the node is online\n{stack.log('alpha')}", seconds=START_S)
        yield site


@pytest.fixture
def alice(site) -> Iterator[Client]:
    """The Python client of somebody with every scope."""
    with Client(site.url, token=site.token) as client:
        yield client


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a command ended and what it said."""

    status: int
    out: str
    err: str


@pytest.fixture
def command(site, tmp_path, monkeypatch, capsys) -> Callable[..., Ended]:
    """Run `pkb` in a folder of its own, signed in unless the environment says otherwise.

    In this process, which spares half a second a call; the quick start is run as a program.
    """
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str | Path, stdin: str = "", **environment: str) -> Ended:
        signed_in = {"PKB_SITE": site.url, "PKB_TOKEN": site.token, "PKB_CONFIG_DIR": str(tmp_path / "config")}
        with monkeypatch.context() as patched:
            for name, value in (signed_in | environment).items():
                patched.setenv(name, value)
            patched.setattr(sys, "argv", ["pkb", *map(str, arguments)])
            patched.setattr(sys, "stdin", io.StringIO(stdin))
            with pytest.raises(SystemExit) as ended:
                main()
        out, err = capsys.readouterr()
        return Ended(status=int(ended.value.code or 0), out=out, err=err)

    return run
