"""The whole site in production mode: servers, processes of each kind, simulated nodes, and the network between."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg2

from tests import servers
from tests.portal.production.conftest import Broker
from tests.stack import Stack
from tools.chaos.load import PROFILES
from tools.chaos.network import Network

DISPATCHERS = ("dispatcher1", "dispatcher2")
_ENVIRONMENT = {
    "PKB_EMBEDDED": "false",
    "PKB_ALLOWED_HOSTS": "127.0.0.1",
    "PKB_TRUSTED_ORIGINS": "https://127.0.0.1",
    # Twice what a healthy node needs on a machine whose two processors everything here shares.
    "PKB_LEASE_SECONDS": "20",
    "PKB_NODE_SILENT_SECONDS": "12",
    "PKB_NODE_HEARTBEAT_SECONDS": "3",
    "PKB_EVALUATION_DEADLINE_SECONDS": "60",
    "PKB_NEW_ACCOUNT_DAYS": "0",
    "PKB_GPU_SECONDS_PER_DAY": "1000000",
    # The vendor uses about 2,000 a minute: enough for three hours. What was charged is in the audit.
    "PKB_ORGANISATION_GPU_SECONDS_PER_DAY": "400000",
}
_SECRETS_OF_THE_SITE = {"PKB_SECRET_KEY": "", "PKB_DATABASE_URL": ""}
_MAKE_PEOPLE = """
from portal.accounts import actions
for number in range({people}):
    user = actions.sign_up(username=f"person{{number}}", password="a long pass phrase")
    print(actions.create_token(user, name="chaos", scopes=["submit", "read"], lifetime_days=1)[1])
user = actions.sign_up(username="vendor", password="a long pass phrase")
print(actions.create_token(user, name="chaos", scopes=["runs:read", "runs:write"], lifetime_days=1)[1])
"""


class ChaosSite:
    """Everything that can be killed, by name; what is killed stays away until it is started again."""

    def __init__(
        self, stack: Stack, *, postgres: servers.PostgreSQL, broker: Broker, to_broker: Network, to_web: Network
    ) -> None:
        self.stack, self.postgres, self.broker = stack, postgres, broker
        self.to_broker, self.to_web = to_broker, to_web
        self.nodes: list[str] = []

    def prepare(self, *, people: int, nodes: int) -> list[str]:
        """Tables, accounts and nodes; the tokens, the vendor's last."""
        self.stack.migrate()
        (self.stack.data_dir / "static").mkdir(exist_ok=True)  # only the API is asked: nothing has to be collected
        self.nodes = [f"node-{number:02}" for number in range(nodes)]
        self.stack.register_nodes(self.nodes)
        printed = self.stack.manage("shell", "--no-imports", "-c", _MAKE_PEOPLE.format(people=people))
        return printed.split()

    def start(self, name: str) -> None:
        """Start one part by its name."""
        if name == "PostgreSQL":
            self.postgres.start()
        elif name == "broker":
            self.broker.server.start()
        elif name == "web":
            # It is not ready before the database is back, whose turn may come later.
            self.stack.start_web(workers=2, is_awaited=False)
        elif name in DISPATCHERS:
            self.stack.start_dispatcher(name)
        else:
            self.start_node(name)

    def kill(self, name: str) -> None:
        """SIGKILL to one part and all its processes."""
        if name == "PostgreSQL":
            self.postgres.kill()
        elif name == "broker":
            self.broker.server.kill()
        else:
            self.stack.kill_with_children(name)

    def start_node(self, name: str, *, lies: str = "") -> None:
        """A node of the profile that is its turn; it reaches broker and site through wires of its own."""
        number = int(name.rpartition("-")[2])
        profile = list(PROFILES)[number % len(PROFILES)]
        address = urlsplit(self.broker.node_url(name))
        port = self.to_broker.join(name)
        host = f"{address.netloc.rpartition('@')[0]}@127.0.0.1:{port}"
        environment = {
            **_SECRETS_OF_THE_SITE,
            "PKB_BROKER_URL": urlunsplit(address._replace(netloc=host)),
            "PKB_SITE_URL": f"http://127.0.0.1:{self.to_web.join(name)}",
            "PKB_CHAOS_BUILDERS": "0" if profile.startswith("cpu") else "1",
            "PKB_CHAOS_LIES": lies or self.lies_of(name),
        }
        slots = ",".join([profile] * (2 if profile.startswith("cpu") else 1))
        self.stack.start_node(name, profiles=slots, module="tools.chaos.node", environment=environment)

    def lies_of(self, name: str) -> str:
        """The randomness of a node that lies: the second and the last but one do, wherever they start again."""
        return name if name in (self.nodes[1], self.nodes[-2]) and len(self.nodes) > 3 else ""

    def rows(self, query: str, *values: object) -> list[tuple[object, ...]]:
        """What the database answers."""
        connection = psycopg2.connect(self.postgres.dsn("chaos"))
        try:
            with connection.cursor() as cursor:
                cursor.execute(query, values)
                return cursor.fetchall()
        finally:
            connection.close()

    def execute(self, query: str, *values: object) -> None:
        """Change something as an operator does in the admin."""
        connection = psycopg2.connect(self.postgres.dsn("chaos"))
        connection.autocommit = True
        try:
            with connection.cursor() as cursor:
                cursor.execute(query, values)
        finally:
            connection.close()


@contextmanager
def chaos_site(folder: Path, *, harm: float = 0.0, seed: int = 0) -> Iterator[ChaosSite]:
    """A site of its own with PostgreSQL and Redis; nothing is left behind. `harm` and `seed` as of `Network`."""
    with servers.postgresql() as postgres, servers.redis() as server:
        url = postgres.create_database("chaos")
        place = Broker(server=server, admin_url=server.admin_url, public_url=f"redis://127.0.0.1:{server.port}/0")
        with Stack(folder, database_url=url, broker_url=place.site_url, environment=_ENVIRONMENT) as stack:
            to_broker = Network(server.port)
            to_web = Network(stack.port, is_proxy=True, harm=harm, seed=str(seed))
            try:
                yield ChaosSite(stack, postgres=postgres, broker=place, to_broker=to_broker, to_web=to_web)
            finally:
                to_broker.close()
                to_web.close()


def drawn(draw: random.Random, choices: dict[str, int]) -> str:
    """One of `choices` by its weight."""
    [chosen] = draw.choices(list(choices), list(choices.values()))
    return chosen
