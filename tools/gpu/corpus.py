# A table on standard output is what it is for.
"""Programs of others, each judged by our rule and by the published one: correct, wrong, forbidden or not judged?

    python -m tools.gpu.corpus FOLDER --out FOLDER [--profile gpu1r8] [--of PARTS [--part I]] [--seconds 540]
                               [--set NAME ...] [--builders N] [--work-dir FOLDER] [--table | --record]

The first folder has sets of programs and `index.json`: per set and file a problem and a backend. Every program is
judged twice, each time by new ranks: in mode check, and in mode published. A second call judges what has no verdict
yet, whoever judged the rest: lines and reports lie in OUT/PART/. With --of 8 eight processes judge side by side, each
on its own GPU; with --part also given, only that one of them runs here, from 0. OUT/programs.jsonl has a line per
program with both verdicts, and OUT/run.json what they were judged on. Exits 1 while a program is left.

--record judges nothing. It keeps the verdicts of OUT in problems/data/published/programs.json, which the site shows,
with no text of a program. What is written there by hand about a program, `difference`, stays, and so does a verdict
that a reader found to be the machine's. Programs whose verdicts are kept are not judged again on the same profile.
"""

import argparse
import collections
import gzip
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from evaluator.batch import Batch, Results
from evaluator.contract import Backend, ContractError, EvaluationReport, EvaluationRequest, Mode, Verdict
from evaluator.hardware import profiles
from evaluator.host import JudgeSettings
from evaluator.host.build_ahead import builders_here
from evaluator.host.machine import facts, gpus
from evaluator.host.sandbox import cgroups
from evaluator.judging.verdicts import FACTS, Fault
from evaluator.sources import read_source
from problems import registry

RECORD = registry.DATA / "published" / "programs.json"
RULES = {"ours": Mode.CHECK, "published": Mode.PUBLISHED}
CLASSES = ("correct", "wrong", "forbidden", "not judged")

# A hang costs the time of the first call. Ranks may compile in it what the builder, as rank 0, did not meet.
_SETTINGS = {"first_call_s": 60.0, "lazy_build_s": 60.0, "evaluation_s": 240.0}


def main():
    options = parsed()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.record:
        return record(options)
    if not options.table:
        if options.of > 1 and options.part is None:
            side_by_side(options)
        else:
            judge(options)
    return table(options) if options.part is None else 0


def parsed():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path, metavar="FOLDER")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--profile", default="gpu1r8", choices=list(profiles.profiles()))
    parser.add_argument("--set", action="append", help="only programs of this set")
    parser.add_argument("--of", type=int, default=1, help="how many processes share the programs, each with a GPU")
    parser.add_argument("--part", type=int, help="the one that runs here, from 0 (default: all of them)")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="every process has ended before so many")
    parser.add_argument("--builders", type=int, help="how many each compiles at once (default: as a node does)")
    parser.add_argument("--work-dir", type=Path, help="for the judge's files and the cache of builds")
    parser.add_argument("--table", action="store_true", help="judge nothing, only write and print the table")
    parser.add_argument("--record", action="store_true", help="keep the verdicts of OUT for the site")
    options = parser.parse_args()
    if options.part is not None and not 0 <= options.part < options.of:
        parser.error(f"--part {options.part} of {options.of}: parts are numbered from 0 to {options.of - 1}")
    return options


def programs(options):
    """By name: set, file, problem, backend, and what the program was published as."""
    found = {}
    for name, described in json.loads((options.corpus / "index.json").read_text()).items():
        for file, each in described["programs"].items():
            if not options.set or name in options.set:
                found[f"{name}.{Path(file).stem}"] = {"set": name, "file": file, **each}
    return found


def request(options, name, program, rule):
    """The request for one verdict; None where the problem does not run on so many ranks."""
    profile, mode = profiles.get(options.profile), RULES[rule]
    if registry.get(program["problem"]).refuses(profile.world_size, profile.sizes[mode]) is not None:
        return None
    return EvaluationRequest(
        evaluation_id=f"{name}.{rule}",
        problem=program["problem"],
        revision=registry.revision(program["problem"]),
        source=read_source(options.corpus / program["set"] / program["file"]),
        backend=Backend(program["backend"]),
        profile=profile.name,
        mode=mode,
    )


def judge(options):
    profile, ends_at = profiles.get(options.profile), time.monotonic() + options.seconds
    part = options.part or 0
    if profile.is_on_gpus and options.of > 1:
        every = gpus.everywhere()
        os.environ[gpus.CHOICE] = str(every[part % len(every)])
    cgroups.enter_leaf_group()
    if options.work_dir is not None:
        options.work_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    known = {key for key, line in judged(options).items() if line.is_final} | set(kept(options))
    mine = list(programs(options).items())[part :: options.of]
    wanted = [request(options, name, each, rule) for name, each in mine for rule in RULES]
    batch = Batch(
        settings=JudgeSettings(profile=profile.name, work_dir=options.work_dir, **_SETTINGS),
        builders=builders_here(profile) if options.builders is None else options.builders,
        waiting=8,
        ends_at=ends_at,
        results=Results(options.out / f"{part}of{options.of}"),
        say=lambda text: print(f"{part}: {text}", flush=True),
    )
    quarantine = batch.run([each for each in wanted if each is not None and each.evaluation_id not in known])
    print(f"{part}: {batch.summary()}", flush=True)
    if quarantine:
        print(f"{part}: the slot is in QUARANTINE: {quarantine}", flush=True)
    told = {"profile": profile.name, "at": time.strftime("%Y-%m-%d", time.gmtime()), **facts.environment()}
    shared = {"gpu.shared": gpus.shared_model(profile)} if profile.shares_gpu else {}
    (options.out / "run.json").write_text(json.dumps({**told, **shared, "judge": facts.judge_digest()}, indent=1))


def side_by_side(options):
    """All parts at once, each in a process of its own."""
    builders = options.builders or max(1, len(os.sched_getaffinity(0)) // 2 // options.of)
    running = []
    for part in range(options.of):
        own = [str(options.corpus), "--out", str(options.out), "--profile", options.profile, "--of", str(options.of)]
        own += ["--part", str(part), "--seconds", str(options.seconds - 5), "--builders", str(builders)]
        own += [word for name in options.set or () for word in ("--set", name)]
        own += ["--work-dir", str(options.work_dir)] if options.work_dir else []
        running.append(subprocess.Popen([sys.executable, "-m", "tools.gpu.corpus", *own]))
    for process in running:
        process.wait()


# --- the table --------------------------------------------------------------------------------------------------------


def judged(options):
    """By evaluation id the last line of any part."""
    found = {}
    for path in sorted(options.out.glob("*of*/results.jsonl")):
        for line in Results(path.parent).lines:
            if line.evaluation_id not in found or not found[line.evaluation_id].is_final:
                found[line.evaluation_id] = line
    return found


def recorded():
    return json.loads(RECORD.read_text()) if RECORD.is_file() else {"judged_on": [], "sets": []}


def kept(options):
    """By evaluation id the verdicts that were recorded on this profile, as rows of the table have them."""
    record = recorded()
    if any(run["profile"] != options.profile for run in record["judged_on"]):
        return {}
    known = {each["digest"]: each for one in record["sets"] for each in one["programs"]}
    found = {}
    for name, program in programs(options).items():
        row = known.get(read_source(options.corpus / program["set"] / program["file"]).digest, {})
        for rule in RULES:
            if row.get(rule):
                told = {name: row[rule][name] for name in ("verdict", "why", "run")}
                found[f"{name}.{rule}"] = {"class": row[rule]["kind"], "message": row[rule]["why"], **told}
    return found


def verdict_of(options, line):
    """One verdict in a class, with what the report says; a missing report tells no forbidden collective."""
    report = read_report(options, line)
    verdict = line.verdict
    forbids = [] if report is None else [each for each in report.warnings if each.verdict is Verdict.FORBIDDEN]
    if verdict is Verdict.FORBIDDEN or forbids:
        which, why = "forbidden", forbids[0].message if forbids else line.message
    elif verdict is Verdict.PASSED:
        which, why = "correct", line.message
    elif verdict is Verdict.UNSUPPORTED or FACTS[verdict].fault is Fault.JUDGE:
        which, why = "not judged", line.message
    else:
        which, why = "wrong", line.message
    return {"class": which, "verdict": verdict.value, "why": why.partition(". ")[0], "message": line.message}


def read_report(options, line):
    path = next(iter(options.out.glob(f"*of*/{line.report}")), None)
    try:
        return None if path is None else EvaluationReport.from_json(gzip.decompress(path.read_bytes()))
    except (OSError, EOFError, ContractError):
        return None


def table(options):
    """Write OUT/programs.jsonl and print the counts; the exit status."""
    lines, known, path, left, rows = judged(options), kept(options), options.out / "programs.jsonl", 0, []
    before = {}
    if path.is_file():  # reports may have been left on another machine
        before = {row["name"]: row for row in map(json.loads, path.read_text().splitlines())}
    for name, program in programs(options).items():
        row = {"name": name, **program, "profile": options.profile}
        for rule in RULES:
            line = lines.get(f"{name}.{rule}")
            if line is None and request(options, name, program, rule) is None:
                why = f"the problem does not run on {profiles.get(options.profile).world_size} ranks"
                row[rule] = {"class": "not judged", "verdict": "", "why": why, "message": why}
            elif line is None:
                row[rule] = known.get(f"{name}.{rule}") or before.get(name, {}).get(rule)
            elif read_report(options, line) is None and before.get(name, {}).get(rule):
                row[rule] = before[name][rule]
            else:
                row[rule] = verdict_of(options, line)
        left += sum(row[rule] is None for rule in RULES)
        rows.append(row)
    scratch = path.with_suffix(f".{os.getpid()}.tmp")
    scratch.write_text("".join(json.dumps(row) + "\n" for row in rows))
    scratch.replace(path)
    show(rows)
    print(f"{len(rows)} programs, {left} verdicts are left")
    return 1 if left else 0


def record(options):
    """Keep both verdicts of every program for the site; the exit status."""
    known, run = recorded(), json.loads((options.out / "run.json").read_text())
    now = {name: run[name] for name in ("profile", "at", "torch", "driver", "gpu.shared")}
    runs = list(known["judged_on"]) + [now] * (now not in known["judged_on"])
    written = {each["digest"]: each["difference"] for one in known["sets"] for each in one["programs"]}
    judged_so_far = {
        row["name"]: row for row in map(json.loads, (options.out / "programs.jsonl").read_text().splitlines())
    }
    sets = []
    for name, described in json.loads((options.corpus / "index.json").read_text()).items():
        rows = []
        for file, each in described["programs"].items():
            row = judged_so_far[f"{name}.{Path(file).stem}"]
            digest = read_source(options.corpus / name / file).digest
            rulings = {rule: row[rule] and ruling(row[rule], runs.index(now)) for rule in RULES}
            rows.append({**each, "digest": digest, **rulings, "difference": written.get(digest, "")})
        about = {"model": described["model"], "asked_for": described["asked_for"], "left_out": described["left_out"]}
        sets.append({**about, "programs": rows})
    RECORD.write_text(json.dumps({"judged_on": runs, "sets": sets}, indent=1, ensure_ascii=False) + "\n")
    return 0


def ruling(judged, run):
    """What is kept of one verdict; `run` is the place in `judged_on` of a run that nothing is kept of yet."""
    return {"kind": judged["class"], "verdict": judged["verdict"], "why": judged["why"], "run": judged.get("run", run)}


def show(rows):
    for name in dict.fromkeys(row["set"] for row in rows):
        own = [row for row in rows if row["set"] == name]
        for rule in RULES:
            counted = collections.Counter(row[rule]["class"] for row in own if row[rule])
            print(f"{name:24} by {rule:10} " + ", ".join(f"{which} {counted[which]}" for which in CLASSES))
    for row in rows:
        ours, theirs = row["ours"], row["published"]
        if ours and theirs and ours["class"] != theirs["class"]:
            print(f"DIFFERS {row['name']}: ours {ours['class']} ({ours['verdict']}), published {theirs['class']}")
            for each in (ours, theirs):
                if each["class"] != "correct":
                    print(f"        {each['verdict']}: {each['message'][:240]}")


if __name__ == "__main__":
    sys.exit(main())
