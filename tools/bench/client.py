"""What a vendor waits for: an 870-attempt run uploaded through the client, and an agent loop on two CPU ranks.

`python -m tools.bench.client [sqlite] [postgresql] [agent]`, all three if none is named.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pkb import Client, NewRun
from pkb.agent import Plan, Task
from pkb.chat import ChatModel, Prices
from pkb.generation import generate, new_key, prompts_of, run_of
from pkb.generation_log import Event, Judged, Log, Settings
from pkb.journal import Journal
from pkb.judges import RunJudge
from pkb.uploads import upload
from tests import servers
from tests.client.conftest import SCOPES, new_token
from tests.client.model_server import KEY, ModelServer
from tests.stack import START_S, Stack, wait_until

SAMPLES = 10


@contextmanager
def running(*, database_url: str = "", with_judge: bool = False) -> Iterator[tuple[Stack, Client]]:
    """A site and somebody signed in."""
    with tempfile.TemporaryDirectory(prefix="pkb-bench-") as folder:
        limits = {"PKB_MAX_QUEUED_PER_AUTHOR": "5000"}
        with Stack(Path(folder), database_url=database_url, environment=limits) as stack:
            stack.migrate()
            if with_judge:
                stack.start_all()
            url = stack.url
            with Client(url, token=new_token(stack, "bench", SCOPES), patience_s=600) as pkb:
                yield stack, pkb


def measure_upload(pkb: Client, *, database: str) -> None:
    """Upload every problem ten times, and the same file again."""
    slugs = [problem.slug for problem in pkb.problems() if "h200x8-nomc" in problem.profiles]
    # Every attempt is another text, about as long as those that models write, and reaches the queue.
    references = {slug: pkb.problem(slug).reference for slug in slugs}
    attempts = [(slug, sample) for sample in range(SAMPLES) for slug in slugs]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "attempts.jsonl"
        lines = [
            json.dumps({"problem": slug, "sample": sample, "source": f"{references[slug]}\n# {sample}\n"})
            for slug, sample in attempts
        ]
        path.write_text("".join(f"{line}\n" for line in lines))
        run = pkb.runs.create(NewRun(model="bench", mode="best_of_k", k=SAMPLES, profile="h200x8-nomc"))
        started = time.monotonic()
        first = upload(pkb.runs, run.id, path)
        stored_s = time.monotonic() - started
        path.with_name("attempts.jsonl.pkb-journal").unlink()
        started = time.monotonic()
        again = upload(pkb.runs, run.id, path)
        again_s = time.monotonic() - started
        size = path.stat().st_size / 1e6
    print(
        f"{database}: {len(attempts)} attempts over {len(slugs)} problems, {size:.1f} MB in one request: "
        f"{stored_s:.1f} s {first.counts}, {pkb.runs.get(run.id).pending} wait for a judge; "
        f"sent again {again_s:.1f} s {again.counts}"
    )


class Nobody:
    """Hears and says nothing."""

    def judged(self, *_: object) -> None:
        """A step was judged."""

    def ended(self, *_: object) -> None:
        """A sample is done."""


def measure_agent(pkb: Client) -> None:
    """Three steps of a model that needs no time, each judged in check mode, and the ranked attempt judged too."""
    prices = Prices()
    with tempfile.TemporaryDirectory() as folder, ModelServer() as server:
        for turn in ("first", "second", "third"):
            settings = Settings(
                site=pkb.site,
                model="learner",
                mode="agentic",
                backend="pytorch",
                profile="cpux2",
                samples=1,
                plan=Plan(steps=20),
                prices=prices,
                sampling={},
                key=new_key(),
                run=None,
            )
            started = time.monotonic()
            with Journal[Event](Path(folder) / turn, Event) as journal:
                log = Log(journal, prices)
                prompts = prompts_of(pkb, log, settings, ["allreduce"])
                made = run_of(pkb, log, settings, NewRun(model="learner", mode="agentic", profile="cpux2"))
                assert made
                summary = generate(
                    log,
                    settings=settings,
                    prompts=prompts,
                    tasks=[Task(problem="allreduce", sample=0)],
                    model=ChatModel(server.base_url, "learner", key=KEY),
                    judge=RunJudge(site=pkb, run=made.run, prices=prices),
                    made=made,
                    concurrency=1,
                    budget_usd=None,
                    hears=Nobody(),
                )
                verdicts = [entry.verdict.verdict for entry in log.of_kind(Judged)]
            loop_s = time.monotonic() - started
            for _ in pkb.runs.watch(made.run):
                pass
            print(
                f"agent, {turn} time: {', '.join(verdicts)} in {loop_s:.1f} s; "
                f"ranked verdict {pkb.runs.get(made.run).figures.verdicts} after {time.monotonic() - started:.1f} s "
                f"(samples done: {summary.done})"
            )


def main() -> None:
    """Measure what was asked for."""
    wanted = sys.argv[1:] or ["sqlite", "postgresql", "agent"]
    print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}")
    if "sqlite" in wanted:
        with running() as (_, pkb):
            measure_upload(pkb, database="SQLite")
    if "postgresql" in wanted:
        with servers.postgresql() as server, running(database_url=server.create_database("bench")) as (_, pkb):
            measure_upload(pkb, database="PostgreSQL")
    if "agent" in wanted:
        with running(with_judge=True) as (stack, pkb):
            online = lambda: any(profile.slots_online for profile in pkb.profiles())  # noqa: E731
            wait_until(online, what=lambda: f"the node is online\n{stack.log('alpha')}", seconds=START_S)
            measure_agent(pkb)


if __name__ == "__main__":
    main()
