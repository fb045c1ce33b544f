"""`python -m evaluator.node`: judge for a site until a signal ends it."""

import argparse
import logging.config
import os
import shutil
import signal
import sys
from pathlib import Path

from celery import Celery
from celery.signals import setup_logging, worker_init, worker_shutting_down

from evaluator import logs
from evaluator.hardware import profiles
from evaluator.host import Judge, JudgeSettings
from evaluator.host.build_ahead import BuildAhead, Builders, builders_here
from evaluator.host.machine import gpus
from evaluator.host.sandbox import cgroups
from evaluator.node.app import add_tasks, make_app
from evaluator.node.outbox import Outbox
from evaluator.node.settings import Misconfigured, NodeSettings, without_secrets
from evaluator.node.site import Site
from evaluator.node.worker import Node


def main() -> int:
    """Run the node; returns 2 where it cannot start as it is configured."""
    parser = argparse.ArgumentParser(prog="python -m evaluator.node", description=__doc__)
    parser.add_argument("--profile", action="append", default=[], help="one per slot; default: PKB_NODE_PROFILES")
    try:
        settings = NodeSettings.from_environment(os.environ, profiles_override=tuple(parser.parse_args().profile))
    except Misconfigured as error:
        sys.stderr.write(f"node: {error}\n")
        return 2
    logging.config.dictConfig(logs.configuration(settings.log_format))
    kept = without_secrets(os.environ)
    os.environ.clear()
    os.environ.update(kept)
    if settings.gpus:
        # The judge reads the environment, also where the node's settings come from the site's file.
        os.environ[gpus.CHOICE] = settings.gpus
    return run(settings)


def remove_leftovers(work_dir: Path) -> None:
    """Make the folder, and remove what the judges of a killed process left in it."""
    work_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    for left in work_dir.glob("pkb-judge-*"):
        shutil.rmtree(left, ignore_errors=True)


def _builders(settings: NodeSettings, profile: str) -> int:
    """The operator's number of builders, else as many as this machine has processors for."""
    return builders_here(profiles.get(profile)) if settings.builders is None else settings.builders


def _start(node: Node) -> None:
    """Start, in Celery's main thread, and drain on SIGUSR2, which batch systems send before their limit."""
    node.start()
    signal.signal(signal.SIGUSR2, lambda *_: node.drain(then=lambda: os.kill(os.getpid(), signal.SIGTERM)))


def run(settings: NodeSettings) -> int:
    """Judge until a signal ends the node."""
    app = make_app(settings)
    remove_leftovers(settings.work_dir)
    cgroups.enter_leaf_group()
    builders = _make_builders(settings)
    site = Site(settings.site_url, name=settings.name, key=settings.key)
    outbox = Outbox(site, settings.spool_dir)
    node = Node(settings, outbox, make_judge=lambda profile: Judge(_judged_by(settings, profile)), builders=builders)
    add_tasks(app, node)
    if settings.metrics_listen:
        from evaluator.node import metrics  # noqa: PLC0415 - a node without metrics needs no library for them

        metrics.serve(settings.metrics_listen, node, outbox)
    # With a receiver, Celery does not change logging.
    setup_logging.connect(lambda **_: None, weak=False)
    worker_init.connect(lambda **_: _start(node), weak=False)
    worker_shutting_down.connect(lambda **_: node.stop(), weak=False)
    try:
        # More threads than slots and builders, so that a cancellation never waits for the work that it cancels.
        return _receive(app, threads=2 * (len(settings.profiles) + builders.number) + 1)
    finally:
        node.close()


def _judged_by(settings: NodeSettings, profile: str) -> JudgeSettings:
    return JudgeSettings(
        profile=profile,
        # Without a sandbox the user of the ranks must reach the folder, and the site's own is closed to it.
        work_dir=None if settings.allow_unsandboxed else settings.work_dir,
        allow_unsandboxed=settings.allow_unsandboxed,
        other_user=True,
        users=settings.users,
        cross_check=True,
    )


def _make_builders(settings: NodeSettings) -> Builders:
    """Builders for the profile with GPUs: only that is compiled for, and a node has one such profile at most."""
    compiled_for = next((name for name in settings.profiles if profiles.get(name).is_on_gpus), None)
    number = 0 if compiled_for is None else _builders(settings, compiled_for)
    return Builders(number, make=lambda: BuildAhead(_judged_by(settings, str(compiled_for))))


def _receive(app: Celery, *, threads: int) -> int:
    """Receive messages in so many threads until a signal ends the process; the exit status."""
    options = ("--without-gossip", "--without-mingle", "--without-heartbeat")
    try:
        app.worker_main(["worker", "--pool=threads", f"--concurrency={threads}", "--loglevel=INFO", *options])
    except SystemExit as stopped:
        return stopped.code if isinstance(stopped.code, int) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
