"""Does the site lose anything while everything dies? `make chaos MINUTES=20 SEED=1`.

PostgreSQL, Redis, two web processes, two dispatchers and sixteen simulated nodes of three profiles run on this machine.
People and a vendor's program submit all the while. Web, dispatchers, broker, database and nodes are killed (SIGKILL) at
random and come back. Nodes drain, freeze, are switched off and lose the network. The proxy before the site cuts their
requests and loses its answers. Two of them send forged reports. Afterwards all work may end. Then the database is
compared with what the callers noted, with the verdict that every source is made for, and with `manage.py audit`. Exits
with 1 if anything is wrong.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from tools.chaos.load import Pace
from tools.chaos.trial import Trial, Wishes, run


def say(text: str) -> None:
    """Print with the time of day."""
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def main() -> int:
    """Run, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=None, help="of what happens; drawn and printed if left out")
    parser.add_argument("--nodes", type=int, default=16)
    parser.add_argument("--per-second", type=float, default=2.0, help="submissions of people, all together")
    parser.add_argument("--every", type=float, default=4.0, help="mean seconds between two things that happen")
    parser.add_argument("--harm", type=float, default=0.04, help="share of requests that the proxy cuts, and loses")
    parser.add_argument("--keep", type=Path, default=None, help="a folder for the logs; else they go")
    chosen = parser.parse_args()
    wishes = Wishes(
        seed=chosen.seed if chosen.seed is not None else int.from_bytes(os.urandom(3), "big"),
        minutes=chosen.minutes,
        nodes=chosen.nodes,
        pace=Pace(per_second=chosen.per_second),
        every_s=chosen.every,
        harm=chosen.harm,
    )
    say(f"seed {wishes.seed}, {wishes.minutes:g} minutes, {wishes.nodes} nodes")
    with tempfile.TemporaryDirectory(prefix="pkb-chaos-") as folder:
        trial = run(wishes, (chosen.keep or Path(folder)) / "site", say=say)
    report(trial)
    return 1 if trial.found.wrong else 0


def report(trial: Trial) -> None:
    """Print what happened, how everything ended, and what is wrong."""
    caller_log, found = trial.caller_log, trial.found
    print("\nwhat happened: " + ", ".join(f"{what} {count}" for what, count in sorted(trial.happened.items())))
    print("callers: " + ", ".join(f"{what} {count}" for what, count in sorted(caller_log.counts.items())))
    print(f"accepted: {len(caller_log.submissions)} submissions and {len(caller_log.attempts)} attempts of runs")
    print("ended: " + ", ".join(f"{how} {count}" for how, count in found.ended.most_common()))
    print("tries: " + ", ".join(f"{count} in {tries}" for tries, count in sorted(found.tries.items())))
    print(f"all had ended {trial.settled_s:.0f} s after the last disorder")
    for text, count in trial.tracebacks.most_common(12):
        print(f"  traceback, {count} times: {text}")
    if found.wrong:
        print(f"\nWRONG, {len(found.wrong)} times:")
        for fault in found.wrong[:40]:
            print(f"  {fault}")
    else:
        print("\nall that was accepted has one outcome, the one asked for, and nothing more is there; the audit holds")


if __name__ == "__main__":
    sys.exit(main())
