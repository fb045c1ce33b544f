"""Users of the broker: one for the site, one per node, each able to do what it must and nothing else.

Run by the operator, who alone holds the broker's administrator account:

    python deploy/broker_credentials.py site            once, before the site starts
    python deploy/broker_credentials.py node NAME       for every node; again for a new password
    python deploy/broker_credentials.py remove NAME     takes a node's access away

PKB_BROKER_ADMIN_URL says where Redis is administered: `redis[s]://admin:password@host:6379/0`. PKB_BROKER_PUBLIC_URL
says how site and nodes reach it, without a user: `redis[s]://host:6379/0`. What is printed goes into their environment.

A node takes from its own queue and gives back to it: no other key exists for it.
"""

import argparse
import hashlib
import os
import re
import secrets
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

from redis import Redis
from redis.exceptions import RedisError

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from evaluator.broker import KEY_PREFIX
from evaluator.contract import node_queue

SITE_USER = "site"
_NODE_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,59}")


class CredentialFailure(Exception):
    """The users could not be made or removed; the text says why and what to do."""


class Broker:
    """Redis, whose users are key patterns and commands. Making a user again replaces its password."""

    def __init__(self, admin_url: str) -> None:
        """Connect with the administrator's URL."""
        self.client = Redis.from_url(admin_url, socket_timeout=10)

    def make_site(self, password: str) -> None:
        """Everything that Celery does with keys under our prefix; nothing that administers the server."""
        allowed = ("+@read", "+@write", "+@transaction", "+@scripting", "+@connection", "-@dangerous", "-@admin")
        self._set(SITE_USER, password, f"~{KEY_PREFIX}*", *allowed)

    def make_node(self, node: str, password: str) -> None:
        """Take from its own queue, and give back to it, as at its end with a message that it has not begun."""
        own = f"~{KEY_PREFIX}{node_queue(node)}"
        self._set(node_queue(node), password, own, "-@all", "+ping", "+select", "+brpop", "+lpush")

    def remove_node(self, node: str) -> None:
        """Remove the user and what waits in its queue."""
        if not self._do("ACL", "DELUSER", node_queue(node)):
            raise CredentialFailure(f"the broker has no user {node_queue(node)}; `ACL LIST` shows those it has")
        self._do("DEL", f"{KEY_PREFIX}{node_queue(node)}")
        self._save()

    def _set(self, user: str, password: str, *rules: str) -> None:
        digest = hashlib.sha256(password.encode()).hexdigest()
        self._do("ACL", "SETUSER", user, "reset", "on", f"#{digest}", *rules)
        self._save()

    def _save(self) -> None:
        """Write the users to the server's ACL file: without one they are gone when it restarts."""
        try:
            self._do("ACL", "SAVE")
        except CredentialFailure as failure:
            raise CredentialFailure(
                "Redis runs without an ACL file, so users would be lost when it restarts; start it with --aclfile"
            ) from failure

    def _do(self, *command: str) -> Any:
        try:
            return self.client.execute_command(*command)
        except RedisError as error:
            raise CredentialFailure(f"Redis refused {' '.join(command[:3])}: {error}") from error


def main(arguments: list[str] | None = None) -> int:
    """Do what the command line says; return 0, or 1 after saying what is wrong."""
    options = _parser().parse_args(arguments)
    try:
        broker = connect(_required("PKB_BROKER_ADMIN_URL"), _required("PKB_BROKER_PUBLIC_URL"))
        if options.what == "remove":
            broker.remove_node(checked_name(options.name))
            return 0
        print(f"PKB_BROKER_URL={make(broker, options)}")  # noqa: T201 - what the operator copies
    except CredentialFailure as failure:
        sys.stderr.write(f"{failure}\n")
        return 1
    return 0


def connect(admin_url: str, public_url: str) -> Broker:
    """The broker that the two URLs name; raises CredentialFailure where one is none of Redis."""
    for name, url in (("PKB_BROKER_ADMIN_URL", admin_url), ("PKB_BROKER_PUBLIC_URL", public_url)):
        if urlsplit(url).scheme not in ("redis", "rediss"):
            raise CredentialFailure(f"{name} is {urlsplit(url).scheme}://, and the broker is Redis: give redis[s]://")
    return Broker(admin_url)


def make(broker: Broker, options: argparse.Namespace) -> str:
    """Make the user that was asked for; its URL, with the password that is kept nowhere else."""
    password = secrets.token_urlsafe(32)
    if options.what == "site":
        broker.make_site(password)
        return with_user(_required("PKB_BROKER_PUBLIC_URL"), SITE_USER, password)
    name = checked_name(options.name)
    broker.make_node(name, password)
    return with_user(_required("PKB_BROKER_PUBLIC_URL"), node_queue(name), password)


def checked_name(name: str) -> str:
    """The name, if it can be one; raises CredentialFailure. A pattern character in it would widen its rights."""
    if not _NODE_NAME.fullmatch(name):
        raise CredentialFailure(
            f"{name!r} cannot be the name of a node: use lower-case letters, digits and hyphens, 60 at most"
        )
    return name


def with_user(url: str, user: str, password: str) -> str:
    """The URL with user and password in it."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{quote(user, safe='')}:{quote(password, safe='')}@{host}"))


def _required(name: str) -> str:
    value = os.environ.get(name, "")
    if not value:
        raise CredentialFailure(f"{name} is not set; see `python deploy/broker_credentials.py --help`")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(dest="what", required=True)
    actions.add_parser("site", help="make the site's user and print its URL")
    for what, text in (("node", "make a node's user and print its URL"), ("remove", "remove a node's user")):
        actions.add_parser(what, help=text).add_argument("name")
    return parser


if __name__ == "__main__":
    sys.exit(main())
