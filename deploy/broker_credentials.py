"""Users of the broker: one for the site, one per node, each able to do what it must and nothing else.

Run by the operator, who alone holds the broker's administrator account:

    python deploy/broker_credentials.py site            once, before the site starts
    python deploy/broker_credentials.py node NAME       for every node; again for a new password
    python deploy/broker_credentials.py remove NAME     takes a node's access away

PKB_BROKER_ADMIN_URL says where the broker is administered: `redis[s]://admin:password@host:6379/0`, or for RabbitMQ its
management interface, `http[s]://admin:password@host:15672`. PKB_BROKER_PUBLIC_URL says how site and nodes reach it,
without a user: `redis[s]://host:6379/0` or `amqp[s]://host:5672/pkb`. What is printed goes into their environment.

A node reads its own queue and adds to the site's: it cannot read the site's queue, nor read or fill another node's.
On Redis these are users with key patterns. On RabbitMQ they are users with permissions; nodes publish to an exchange
that leads to the site's queue alone, because the default exchange would let them reach every queue.
"""

import argparse
import hashlib
import json
import os
import re
import secrets
import sys
import urllib.error
import urllib.request
from base64 import b64encode
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from redis import Redis
from redis.exceptions import RedisError

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from evaluator.broker import KEY_PREFIX
from evaluator.contract import PORTAL_QUEUE, node_queue

SITE_USER = "site"
_NODE_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,59}")


class CredentialFailure(Exception):
    """The users could not be made or removed; the text says why and what to do."""


class Broker(Protocol):
    """A broker that users can be made in. Making a user again replaces its password."""

    def make_site(self, password: str) -> None:
        """Make the site's user, and what its queue needs."""

    def make_node(self, node: str, password: str) -> None:
        """Make the user of a node, and what its queue needs."""

    def remove_node(self, node: str) -> None:
        """Remove the user of a node; its connections end."""


class RedisBroker:
    """Users as access control lists: key patterns and commands."""

    def __init__(self, admin_url: str) -> None:
        """Connect with the administrator's URL."""
        self.client = Redis.from_url(admin_url, socket_timeout=10)

    def make_site(self, password: str) -> None:
        """Everything that Celery does with keys under our prefix; nothing that administers the server."""
        allowed = ("+@read", "+@write", "+@transaction", "+@scripting", "+@connection", "-@dangerous", "-@admin")
        self._set(SITE_USER, password, f"~{KEY_PREFIX}*", *allowed)

    def make_node(self, node: str, password: str) -> None:
        """Take from and give back to its own queue; add to the site's."""
        own = f"~{KEY_PREFIX}{node_queue(node)}"
        add = f"(%W~{KEY_PREFIX}{PORTAL_QUEUE} -@all +lpush)"
        # Giving back is what a worker does at its end with a message it has taken and not begun.
        self._set(node_queue(node), password, own, "-@all", "+ping", "+select", "+brpop", "+lpush", add)

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


class RabbitMQBroker:
    """Users with permissions on a virtual host, made through the management interface."""

    def __init__(self, admin_url: str, *, virtual_host: str) -> None:
        """Remember where; `virtual_host` is the path of the public URL."""
        parts = urlsplit(admin_url)
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
        self.authorization = f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"
        self.administrator = quote(user, safe="")
        host = parts.netloc.rpartition("@")[2]
        self.address = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
        self.virtual_host = quote(virtual_host, safe="")

    def make_site(self, password: str) -> None:
        """Make virtual host, exchange and queue; the site may declare and fill every queue and read its own."""
        here = self.virtual_host
        self._put(f"vhosts/{here}", {})
        # Not every version lets the maker of a virtual host into it by itself.
        everything = {"configure": ".*", "write": ".*", "read": ".*"}
        self._put(f"permissions/{here}/{self.administrator}", everything)
        self._put(f"exchanges/{here}/{PORTAL_QUEUE}", {"type": "direct", "durable": True})
        self._put(f"queues/{here}/{PORTAL_QUEUE}", {"durable": True})
        self._call("POST", f"bindings/{here}/e/{PORTAL_QUEUE}/q/{PORTAL_QUEUE}", {"routing_key": PORTAL_QUEUE})
        # A node that floods the site's queue is refused, instead of filling the broker's memory and disk.
        limits = {"max-length-bytes": 256 * 1024 * 1024, "overflow": "reject-publish"}
        self._put(f"policies/{here}/limits", {"pattern": ".*", "apply-to": "queues", "definition": limits})
        queues = rf"^({PORTAL_QUEUE}|node\..+)$"
        self._user(
            SITE_USER, password, configure=queues, write=rf"^({PORTAL_QUEUE}|amq\.default)$", read=f"^{PORTAL_QUEUE}$"
        )

    def make_node(self, node: str, password: str) -> None:
        """Make the node's queue; it may read that one and publish to the site's exchange, and declare nothing."""
        own = f"^{re.escape(node_queue(node))}$"
        self._put(f"queues/{self.virtual_host}/{node_queue(node)}", {"durable": True})
        self._user(node_queue(node), password, configure="^$", write=f"^{PORTAL_QUEUE}$", read=own)

    def remove_node(self, node: str) -> None:
        """Remove the user and its queue."""
        self._call("DELETE", f"users/{node_queue(node)}")
        self._call("DELETE", f"queues/{self.virtual_host}/{node_queue(node)}")

    def _user(self, name: str, password: str, *, configure: str, write: str, read: str) -> None:
        self._put(f"users/{name}", {"password": password, "tags": ""})
        rules = {"configure": configure, "write": write, "read": read}
        self._put(f"permissions/{self.virtual_host}/{name}", rules)

    def _put(self, path: str, content: dict[str, Any]) -> None:
        self._call("PUT", path, content)

    def _call(self, method: str, path: str, content: dict[str, Any] | None = None) -> None:
        request = urllib.request.Request(  # noqa: S310 - http or https, checked in `connect`
            f"{self.address}/api/{path}",
            data=None if content is None else json.dumps(content).encode(),
            headers={"Authorization": self.authorization, "Content-Type": "application/json"},
            method=method,
        )
        try:
            urllib.request.urlopen(request, timeout=30).close()  # noqa: S310 - as above
        except urllib.error.HTTPError as error:
            said = error.read().decode(errors="replace")[:300]
            raise CredentialFailure(f"RabbitMQ refused {method} {path}: {error.code} {said}") from error
        except OSError as error:
            raise CredentialFailure(f"RabbitMQ's management interface at {self.address} fails: {error}") from error


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
    """The broker that the two URLs name; raises CredentialFailure where they do not fit."""
    schemes = (urlsplit(admin_url).scheme, urlsplit(public_url).scheme)
    if schemes[0] in ("redis", "rediss") and schemes[1] in ("redis", "rediss"):
        return RedisBroker(admin_url)
    if schemes[0] in ("http", "https") and schemes[1] in ("amqp", "amqps"):
        return RabbitMQBroker(admin_url, virtual_host=urlsplit(public_url).path[1:] or "/")
    raise CredentialFailure(
        f"PKB_BROKER_ADMIN_URL is {schemes[0]}:// and PKB_BROKER_PUBLIC_URL {schemes[1]}://; "
        "give redis:// for both, or http:// (RabbitMQ's management interface) and amqp://"
    )


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
