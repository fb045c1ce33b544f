"""The load: people and a vendor's program that submit over HTTP, and their records of what the site has accepted.

Every request carries a key of its own and is sent again until it is answered. What the site has answered with 201 it
must never lose. What it stored before it was killed it must not store twice.
"""

import http.client
import json
import random
import threading
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from evaluator.contract import Mode, Verdict
from tools.chaos.prepared import Outcome, source_of

PROFILES = {"cpux2": ("pytorch",), "h200x8": ("pytorch", "cuda", "triton"), "h100x4": ("pytorch", "cuda")}
"""What is submitted to: a practice profile, and two with GPUs, whose nodes compile ahead."""

VENDOR_PROFILE = "h200x8"
_VERDICTS = {
    Verdict.PASSED: 60,
    Verdict.WRONG_RESULT: 20,
    Verdict.RUNTIME_ERROR: 10,
    Verdict.DEADLOCK: 5,
    Verdict.COMPILE_ERROR: 5,
}
_ANSWER_S = 15


@dataclass
class CallerLog:
    """What was accepted, answered and asked for; several threads write."""

    submissions: dict[str, str] = field(default_factory=dict)
    """The submission's id by the key of its request."""
    attempts: dict[tuple[str, str], int] = field(default_factory=dict)
    """How often the site said that it has an attempt, by run and key."""
    cancel_asked: set[str] = field(default_factory=set)
    cancelled: set[str] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def accept(self, key: str, submission: str) -> None:
        """Note an answer to a request; two answers to one key have to name the same submission."""
        with self.lock:
            if self.submissions.setdefault(key, submission) != submission:
                self.wrong.append(f"key {key} stands for {self.submissions[key]} and for {submission}")


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How fast: submissions a second of all people together, and the mean time of a judgement."""

    people: int = 8
    per_second: float = 2.0
    judge_s: float = 1.5
    trouble: int = 20


class Client:
    """One caller of the API, who asks again until there is an answer."""

    def __init__(self, address: str, token: str, *, caller_log: CallerLog) -> None:
        self._address, self._caller_log = address, caller_log
        self._headers = {
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/json",
            "X-Forwarded-Proto": "https",
        }

    def call(self, path: str, body: bytes, *, give_up: threading.Event, **headers: str) -> tuple[int, Any] | None:
        """Status and JSON of the first answer that is the site's own; None once nobody waits for it any more."""
        while not give_up.is_set():
            try:
                status, answer = self._once(path, body, headers)
            except (OSError, http.client.HTTPException, ValueError):
                self._count("requests without an answer")
            else:
                if status < 500:
                    return status, answer
                self._count(f"answers {status}")
                if status != 503:  # while the database is away, 503 is right; nothing else excuses a failure of ours
                    with self._caller_log.lock:
                        self._caller_log.wrong.append(f"POST {path} was answered with {status}: {answer}")
            give_up.wait(0.3)
        return None

    def _once(self, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, Any]:
        connection = http.client.HTTPConnection(self._address, timeout=_ANSWER_S)
        try:
            connection.request("POST", f"/api/v1/{path}", body, self._headers | headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def _count(self, what: str) -> None:
        with self._caller_log.lock:
            self._caller_log.counts[what] += 1


class Load:
    """All callers. `stop` ends new work, `finish` waits until everything begun was answered."""

    def __init__(self, address: str, tokens: list[str], *, vendor: str, pace: Pace, seed: int) -> None:
        self.caller_log = CallerLog()
        self._pace = pace
        self._stop, self._give_up = threading.Event(), threading.Event()
        make = [
            (self._person, Client(address, token, caller_log=self.caller_log), random.Random(f"{seed} person {number}"))
            for number, token in enumerate(tokens)
        ]
        make.append(
            (self._vendor, Client(address, vendor, caller_log=self.caller_log), random.Random(f"{seed} vendor"))
        )
        self._threads = [threading.Thread(target=each, args=rest, daemon=True) for each, *rest in make]

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def finish(self, *, seconds: float) -> None:
        """Begin nothing more, and wait for the answers that are due."""
        self._stop.set()
        end = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        if any(thread.is_alive() for thread in self._threads):
            self.caller_log.wrong.append(f"callers without an answer for {seconds:.0f} s")
            self._give_up.set()

    def _outcome(self, draw: random.Random) -> Outcome:
        [verdict] = draw.choices(list(_VERDICTS), list(_VERDICTS.values()))
        return Outcome(
            verdict=verdict,
            low=round(draw.uniform(0.5, 3.0), 6),
            build_s=draw.expovariate(1 / 0.5),
            judge_s=min(draw.expovariate(1 / self._pace.judge_s), 8 * self._pace.judge_s),
            trouble=self._pace.trouble,
        )

    def _person(self, client: Client, draw: random.Random) -> None:
        pause_s = len(self._threads[:-1]) / self._pace.per_second
        while not self._stop.wait(draw.expovariate(1 / pause_s)):
            profile = draw.choice(list(PROFILES))
            key = str(uuid.UUID(int=draw.getrandbits(128)))
            body = {
                "problem": "allreduce",
                "profile": profile,
                "backend": draw.choice(PROFILES[profile]),
                "mode": draw.choice((Mode.RANKED, Mode.RANKED, Mode.CHECK)).value,
                "source": source_of(self._outcome(draw), number=key),
            }
            submission = self._submit(client, key, json.dumps(body).encode())
            if submission is not None and draw.random() < 0.05:
                self._stop.wait(draw.uniform(0, 4))
                self._cancel(client, submission)

    def _submit(self, client: Client, key: str, body: bytes) -> dict[str, Any] | None:
        """The accepted submission; None where the author has too much queued, which is no fault."""
        answered = client.call("submissions/", body, give_up=self._give_up, **{"Idempotency-Key": key})
        if answered is None:
            return None
        status, answer = answered
        if status == 201:
            self.caller_log.accept(key, answer["id"])
            return answer
        with self.caller_log.lock:
            self.caller_log.counts[f"refused with {status}"] += 1
            if status != 429:
                self.caller_log.wrong.append(f"submission refused with {status}: {answer}")
        return None

    def _cancel(self, client: Client, submission: dict[str, Any]) -> None:
        pk = submission["id"]
        with self.caller_log.lock:
            self.caller_log.cancel_asked.add(pk)
        answered = client.call(f"submissions/{pk}/cancel/", b"{}", give_up=self._give_up)
        if answered is not None and answered[0] == 200:
            with self.caller_log.lock:
                self.caller_log.cancelled.add(pk)

    def _vendor(self, client: Client, draw: random.Random) -> None:
        number = 0
        while not self._stop.is_set():
            wishes = {"model": f"model {number}", "mode": "best_of_k", "profile": VENDOR_PROFILE, "k": 60}
            key = f"run {number}"
            made = client.call("runs/", json.dumps(wishes).encode(), give_up=self._give_up, **{"Idempotency-Key": key})
            number += 1
            if made is None or made[0] != 201:
                self.caller_log.wrong.append(f"run refused: {made}")
                return
            for batch in range(12):
                if self._stop.wait(draw.uniform(1, 2) * 12 / self._pace.per_second):
                    return
                self._add(client, made[1]["id"], range(5 * batch, 5 * batch + 5), draw)

    def _add(self, client: Client, run: str, samples: range, draw: random.Random) -> None:
        lines = [
            {
                "problem": "allreduce",
                "sample": sample,
                "mode": "ranked",
                "source": source_of(self._outcome(draw), number=f"{run} {sample}"),
            }
            for sample in samples
        ]
        body = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        kind = {"Content-Type": "application/x-ndjson"}
        answered = client.call(f"runs/{run}/attempts/bulk/", body, give_up=self._give_up, **kind)
        if answered is None:
            return
        status, answer = answered
        with self.caller_log.lock:
            if status == 429:  # the organisation has used its GPU time of the day, which is no fault
                self.caller_log.counts["attempts refused with 429"] += 1
                return
            if status != 200:
                self.caller_log.wrong.append(f"attempts refused with {status}: {answer}")
                return
            for result in answer["results"]:
                if result["status"] in ("created", "repeated"):
                    self.caller_log.attempts[run, result["key"]] = (
                        self.caller_log.attempts.get((run, result["key"]), 0) + 1
                    )
                else:
                    self.caller_log.counts[f"attempts {result['status']}"] += 1
