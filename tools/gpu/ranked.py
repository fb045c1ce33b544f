# A table on standard output is what it is for.
"""Every reference judged as a ranked submission, at the sizes that count: does it pass, and does its interval include
1.0?

    python -m tools.gpu.ranked --profile h200x2-nomc [--times 10] [--results FILE] [--seconds 540] [SLUG ...]
    python -m tools.gpu.ranked --profile h200x2-nomc --mode published --times 2 [--entries] [...]

Results are lines of JSON, one per judgement. A run continues where the file ends. It does not repeat judgements of the
same reference at the same sizes, timed by the same clock, whatever else of the judge has changed. Prints a line per
judgement and a summary per problem: verdicts, intervals that include 1.0, mean and standard deviation of the scores.
Exits 1 where a reference did not pass. With --mode published times are those of the published protocol: do references
against themselves give 1.0? With --entries our own kernels are judged instead.
"""

import argparse
import gzip
import hashlib
import json
import os
import statistics
import sys
import time
from functools import cache
from pathlib import Path

import evaluator
from evaluator.contract import Backend, Mode
from evaluator.hardware import profiles
from evaluator.host import Judge, JudgeSettings
from evaluator.host.machine.facts import judge_digest
from problems import registry
from tools.bench.judging import request
from tools.gpu.programs import NO_MULTICAST

_CLOCK = (
    "arena/*.py",
    "arena/gate.cu",
    "host/clock/*.py",
    "host/measure/references.py",
    "host/measure/s*.py",
    "judging/statistics.py",
    "judging/timing.py",
    "oracle/reference_rank.py",
    "oracle/end_check.py",
)
"""What a time and a score come from, below the judge's folder."""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--profile", required=True)
    parser.add_argument("--times", type=int, default=1, help="judgements per problem")
    parser.add_argument("--results", type=Path, default=Path("var/ranked.jsonl"))
    parser.add_argument("--mode", type=Mode, default=Mode.RANKED, choices=list(Mode), help="another way to judge")
    parser.add_argument("--entries", action="store_true", help="our own kernels in place of the references")
    parser.add_argument("--reports", type=Path, help="a folder for the whole reports")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no judgement is begun after so many")
    parser.add_argument("slugs", nargs="*", metavar="SLUG", help="default: every problem")
    options = parser.parse_args()
    os.environ |= NO_MULTICAST
    profile = profiles.get(options.profile)
    sizes = profile.sizes[options.mode]
    slugs = options.slugs or [
        each.slug
        for each in registry.problems()
        if each.refuses(profile.world_size, sizes) is None and program(each.slug, options.entries)[0].is_file()
    ]
    options.results.parent.mkdir(parents=True, exist_ok=True)
    which = {"profile": options.profile, "mode": options.mode.value, "is_entry": options.entries}
    known = [line for line in read(options.results) if is_current(line, **which)]
    end = time.monotonic() + options.seconds
    with Judge(JudgeSettings(profile=options.profile)) as judge, options.results.open("a") as file:
        for turn in range(options.times):
            for slug in slugs:
                done = sum(line["problem"] == slug for line in known)
                if done > turn or time.monotonic() > end:
                    continue
                line = which | judged(judge, slug, **which, reports=options.reports)
                known.append(line)
                file.write(json.dumps(line) + "\n")
                file.flush()
                print(shown(line), flush=True)
    return summarise([line for line in known if line["problem"] in slugs])


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def is_current(line, *, profile, mode, is_entry):
    known = (line["profile"], line.get("mode", "ranked"), line.get("is_entry", False), line.get("clock"))
    same = known == (profile, mode, is_entry, clock_digest())
    return same and line.get("timed") == timed_digest(line["problem"], profile=profile)


def program(slug, is_entry):
    """Its file and what it is written in."""
    if is_entry:
        return registry.DATA / "entries" / f"{slug}.py", Backend.CUDA
    return registry.folder(slug) / "reference.py", Backend.PYTORCH


@cache
def clock_digest():
    """SHA-256 over the sources that make a time and a score, its first 16 hexadecimal digits."""
    root = Path(evaluator.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(path for place in _CLOCK for path in root.glob(place)):
        digest.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


@cache
def timed_digest(slug, *, profile):
    """The same over the reference's text and its dimensions at the sizes that count."""
    used = profiles.get(profile)
    problem = registry.get(slug)
    dims = [problem.dims(size, used.world_size) for size in used.sizes[Mode.RANKED]]
    return hashlib.sha256((registry.reference_source(slug) + json.dumps(dims)).encode()).hexdigest()[:16]


def judged(judge, slug, *, profile, mode, is_entry, reports=None):
    path, backend = program(slug, is_entry)
    judge.slot.waiting.wait_until_ready()
    wanted = request(slug, path, backend, profile=profile, mode=Mode(mode))
    begun = time.monotonic()
    report = judge.evaluate(wanted)
    if reports is not None:
        reports.mkdir(parents=True, exist_ok=True)
        name = f"{slug}_{report.finished_at.replace(':', '')}.json.gz"
        (reports / name).write_bytes(gzip.compress(report.to_json().encode()))
    timing = report.timing
    return {
        "problem": slug,
        "profile": profile,
        "revision": registry.revision(slug),
        "judge": judge_digest(),
        "clock": clock_digest(),
        "timed": timed_digest(slug, profile=profile),
        "at": report.finished_at,
        "verdict": report.verdict.value,
        "message": report.message,
        "seconds": round(time.monotonic() - begun, 2),
        "stages": {each.stage.value: round(each.seconds, 2) for each in report.stages},
        "score": timing and timing.score,
        "low": timing and timing.low,
        "high": timing and timing.high,
        "sizes": [size_line(size) for size in timing.sizes] if timing else [],
        "published": report.published and json.loads(report.published.to_json()),
        "memory": {size.size: memory_line(size.memory) for size in report.sizes if size.memory},
        "records": [record_line(record) for record in report.record.sizes] if report.record else [],
    }


def memory_line(memory):
    """Gigabytes of one GPU that judge and submission used at most."""
    return {"judge_gb": round(memory.judge_bytes / 1e9, 1), "submission_gb": round(memory.submission_bytes / 1e9, 1)}


def size_line(size):
    return {
        "size": size.size,
        "score": size.score,
        "low": size.low,
        "high": size.high,
        "blocks": len(size.ratios),
        "candidate_us": size.candidate.median_us,
        "baseline_us": size.baseline.median_us,
        "empty_us": size.empty_us,
        "candidate_empty_us": size.candidate_empty_us,
        "forgeable_us": size.forgeable_us,
        "claimed_us": size.claimed_us,
        "looped_us": size.looped_us,
        "baseline_looped_us": size.baseline_looped_us,
        "ratios": [round(ratio, 4) for ratio in size.ratios],
    }


def record_line(record):
    return {
        "size": record.size,
        "gang": record.group_number,
        "blocks": len(record.blocks),
        "queues": record.queues,
        "reference_queues": record.reference_queues,
        "bare_us": statistics.median(record.bare_ns) / 1000 if record.bare_ns else None,
        "reference_bare_us": statistics.median(record.reference_bare_ns) / 1000 if record.reference_bare_ns else None,
    }


def shown(line):
    memory = "; ".join(
        f"{size} judge {held['judge_gb']} GB, submission {held['submission_gb']} GB"
        for size, held in line["memory"].items()
    )
    if line["verdict"] == "PASSED" and not line["score"] and not line.get("published"):
        return f"{line['problem']:40} PASSED  {line['seconds']:.1f} s  {memory}"
    if found := line.get("published"):
        ratio = found["reference_us"] / found["submission_us"]
        return (
            f"{line['problem']:40} {line['verdict']}  {line['seconds']:.1f} s  {found['submission_us']:.1f} us against "
            f"{found['reference_us']:.1f} us, {ratio:.3f}; {found['warm_calls']} + {found['timed_calls']} calls, "
            f"{found['groups']} groups of {found['group_bytes']:,} bytes"
        )
    score = f"{line['score']:.3f} [{line['low']:.3f}, {line['high']:.3f}]" if line["score"] else line["message"][:300]
    sizes = "; ".join(
        f"{size['size']} {size['candidate_us']:.1f}/{size['baseline_us']:.1f} us, {size['score']:.3f} "
        f"[{size['low']:.3f}, {size['high']:.3f}], {size['blocks']} blocks, empty {size['empty_us']:.1f} "
        f"(forgeable {size['forgeable_us']:.1f}), "
        f"looped {size['looped_us'] or 0:.1f}/{size['baseline_looped_us'] or 0:.1f}"
        for size in line["sizes"]
    )
    kinds = " ".join(
        f"{each['size']}{each['gang']}:{'q' if each['queues'] else 'w'}{'q' if each['reference_queues'] else 'w'}"
        f"{(each['bare_us'] or 0) - (each['reference_bare_us'] or 0):+.2f}us"
        for each in line["records"]
    )
    head = f"{line['problem']:40} {line['verdict']:14} {score}  {line['seconds']:.1f} s"
    return f"{head}  {sizes}  {kinds} {memory} {line['stages']}"


def summarise(lines):
    held = total = 0
    for slug in dict.fromkeys(line["problem"] for line in lines):
        own = [line for line in lines if line["problem"] == slug]
        scores = [line["score"] for line in own if line["score"]]
        held += sum(bool(line["score"]) and line["low"] <= 1 <= line["high"] for line in own)
        total += len(own)
        spread = f", sd {statistics.stdev(scores):.4f}" if len(scores) > 1 else ""
        mean = f"{statistics.mean(scores):.4f}" if scores else "-"
        passed = sum(line["verdict"] == "PASSED" for line in own)
        print(f"{slug:40} {passed} of {len(own)} passed, mean {mean}{spread}")
    ratios = [
        each["published"]["reference_us"] / each["published"]["submission_us"]
        for each in lines
        if each.get("published")
    ]
    if ratios:
        near = sum(abs(ratio - 1) <= 0.02 for ratio in ratios)
        print(f"{near} of {len(ratios)} by the published protocol within 2 % of the reference")
    else:
        print(f"{held} of {total} intervals hold 1.0")
    return 0 if all(line["verdict"] == "PASSED" for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
