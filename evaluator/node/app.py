"""The node's Celery application: the tasks that the site may send."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from celery import Celery, bootsteps

from evaluator import logs
from evaluator.broker import node_config
from evaluator.contract import Assignment, BuildOrder, Cancellation, ContractError, TaskName
from evaluator.node.settings import NodeSettings
from evaluator.node.worker import Node

_Work = TypeVar("_Work", Assignment, BuildOrder, Cancellation)


def make_app(settings: NodeSettings) -> Celery:
    """An application that reaches the broker and listens on this node's queue."""
    # Without fixups: where the site runs on the same machine its variables would make Celery load Django.
    app = Celery("node", set_as_current=False, fixups=[])
    app.conf.update(node_config(settings.broker_url, settings.broker_dir, node=settings.name))
    return app


def _about(work: Assignment | BuildOrder | Cancellation) -> AbstractContextManager[None]:
    """Log lines about the work carry the same identifiers as the site's lines."""
    mark = logs.lease_mark(work.lease)
    if isinstance(work, Cancellation):
        return logs.about(evaluation=work.evaluation_id, lease=mark)
    return logs.about(request_id=work.request_id, evaluation=work.request.evaluation_id, lease=mark)


def add_tasks(app: Celery, node: Node) -> None:
    """Let messages reach `node`, and tell it whether any can.

    A message that is not what the contract says is logged, and shown to the operator.
    """

    class Reach(bootsteps.StartStopStep):
        """The last step of receiving: Celery stops it when the broker is lost, and starts it when it is back."""

        requires = ("celery.worker.consumer.tasks:Tasks",)

        def start(self, _consumer: Any) -> None:
            node.note_broker(is_reached=True)

        def stop(self, _consumer: Any) -> None:
            node.note_broker(is_reached=False)

    node.note_broker(is_reached=False)
    app.steps["consumer"].add(Reach)

    def add(name: TaskName, kind: type[_Work], words: str, act: Callable[[_Work], None]) -> None:
        @app.task(name=name.value)
        def take(text: str) -> None:
            try:
                work = kind.from_json(text)
            except ContractError as error:
                node.refuse(f"{words} from the site: {error}")
                return
            with _about(work):
                act(work)

    add(TaskName.JUDGE, Assignment, "assignment", node.judge)
    add(TaskName.BUILD, BuildOrder, "build order", node.build)
    add(TaskName.CANCEL, Cancellation, "cancellation", node.cancel)
