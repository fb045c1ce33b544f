"""A simulated node: `python -m tools.chaos.node`, with the environment of a real one.

It is `evaluator.node` in all but the judge. PKB_CHAOS_BUILDERS says how many builders it offers, and PKB_CHAOS_LIES,
where it is not empty, that it lies, and is the beginning of its randomness.
"""

import logging
import os
import sys
from functools import partial

from celery.signals import worker_init, worker_shutting_down

from evaluator.host.build_ahead import Builders
from evaluator.node.__main__ import remove_leftovers
from evaluator.node.app import add_tasks, make_app
from evaluator.node.outbox import Outbox
from evaluator.node.settings import NodeSettings
from evaluator.node.site import Site
from evaluator.node.worker import Node
from tools.chaos.lies import LyingOutbox
from tools.chaos.prepared import PreparedBuilds, PreparedJudge


def main() -> int:
    """Answer with what is prepared until a signal says to end."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    settings = NodeSettings.from_environment(os.environ)
    app = make_app(settings)
    remove_leftovers(settings.work_dir)
    lies = os.environ.get("PKB_CHAOS_LIES", "")
    make = partial(LyingOutbox, randomness=lies) if lies else Outbox
    outbox = make(Site(settings.site_url, name=settings.name, key=settings.key), settings.spool_dir)
    builders = Builders(int(os.environ.get("PKB_CHAOS_BUILDERS", "0")), make=PreparedBuilds)
    node = Node(settings, outbox, make_judge=lambda _profile: PreparedJudge(), builders=builders)
    add_tasks(app, node)
    worker_init.connect(lambda **_: node.start(), weak=False)
    worker_shutting_down.connect(lambda **_: node.stop(), weak=False)
    options = ["--pool=threads", "--concurrency=5", "--loglevel=INFO", "--without-gossip", "--without-mingle"]
    try:
        app.worker_main(["worker", *options, "--without-heartbeat"])
    except SystemExit as stopped:
        return stopped.code if isinstance(stopped.code, int) else 1
    finally:
        node.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
