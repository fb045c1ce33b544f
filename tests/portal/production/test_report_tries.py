"""A report that met no database, and whose next try the broker does not take, is not lost."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from celery import Celery

from evaluator.broker import site_config
from tests import servers
from tests.portal.production.conftest import ROOT
from tests.stack import wait_until

pytestmark = pytest.mark.production

WORKER = """
import sys
from pathlib import Path

from celery import Celery
from django.db import OperationalError

from evaluator.broker import site_config

url, folder = sys.argv[1], Path(sys.argv[2])
app = Celery("tried", task_cls="portal.plain_messages:PlainTask", set_as_current=False)
app.conf.update(site_config(url, folder))
app.conf.broker_transport_options |= {"visibility_timeout": 2}


@app.task(name="portal.report", autoretry_for=(OperationalError,), max_retries=None, retry_backoff=1)
def report():
    if not (folder / "database").exists():
        raise OperationalError("refused")
    (folder / "recorded").touch()


app.worker_main(["worker", "--pool", "solo", "--loglevel", "info", "--without-gossip", "--without-mingle"])
"""


def test_a_report_whose_next_try_the_broker_does_not_take_is_delivered_again(tmp_path: Path) -> None:
    """The broker takes no message from the worker for a moment, as where it has no memory left.

    A worker that cannot give a message back ends, and is started again, as by each of our deployments.
    """
    log = tmp_path / "log"
    with servers.redis() as redis:
        admin = redis.admin()
        admin.execute_command("ACL", "SETUSER", "worker", "on", ">secret", "~*", "&*", "+@all", "-lpush")
        sender = Celery("sender", set_as_current=False)
        sender.conf.update(site_config(redis.admin_url, tmp_path))
        url = f"redis://worker:secret@127.0.0.1:{redis.port}/0"
        with (
            log.open("wb") as output,
            subprocess.Popen(
                ["sh", "-c", 'while :; do "$@"; done', "sh", sys.executable, "-c", WORKER, url, str(tmp_path)],
                cwd=ROOT,
                stdout=output,
                stderr=output,
                start_new_session=True,
            ) as worker,
        ):
            try:
                sender.send_task("portal.report", queue="portal")
                wait_until(lambda: "no permissions" in log.read_text(), what=log.read_text, seconds=60)
                admin.execute_command("ACL", "SETUSER", "worker", "+lpush")
                (tmp_path / "database").touch()
                wait_until((tmp_path / "recorded").exists, what=log.read_text, seconds=60)
            finally:
                os.killpg(worker.pid, signal.SIGKILL)
