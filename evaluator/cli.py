"""The judge's command line, without a site: `run`, `batch`, `recompute`, `problems`, `probe`, `doctor`, `baseline`."""

import argparse
import contextlib
import dataclasses
import json
import os
import signal
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from evaluator import presentation
from evaluator.batch import Batch, BatchError, Results, read_requests
from evaluator.contract import (
    SCORE_RULE,
    Backend,
    Baseline,
    BaselineTable,
    ContractError,
    EvaluationReport,
    EvaluationRequest,
    Mode,
    Stage,
    SweepPoint,
    Verdict,
)
from evaluator.errors import EvaluatorError
from evaluator.hardware import ceilings, profiles
from evaluator.hardware.machines import MachineFileError
from evaluator.hardware.profiles import Profile, UnknownProfile
from evaluator.host import Judge, JudgeSettings, SandboxChoice, best_profile
from evaluator.host.build_ahead import builders_here
from evaluator.host.job import no_progress
from evaluator.host.machine import facts
from evaluator.host.sandbox import bubblewrap, cgroups, doctor
from evaluator.host.sandbox.slot_claims import SlotUser
from evaluator.judging import points
from evaluator.judging.recompute import recompute
from evaluator.measuring import baselines, ceiling_run, machine_draft
from evaluator.node import spool
from evaluator.sources import SourceError, read_source
from problems import registry
from problems.spec.memory import held_bytes
from problems.spec.schema import Problem, SizeName, UnknownRegime

DEFAULT_PROFILE = "cpux2"


class _ApiEvaluation(msgspec.Struct):
    """The parts of the site's answer about an evaluation that are used here."""

    report: msgspec.Raw


class UsageError(Exception):
    """The request cannot be carried out; the text says what to change."""


def main(arguments: Sequence[str]) -> int:
    """Carry out one command.

    Returns the exit status: 2 for a wrong call, 3 where the judge itself fails, 130 when interrupted.
    """
    options = _parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        return command(options)
    except (UsageError, BatchError, SourceError, UnknownProfile, MachineFileError, registry.UnknownProblem) as error:
        sys.stderr.write(f"evaluator: {error}\n")
        return 2
    except EvaluatorError as error:
        sys.stderr.write(f"evaluator: the judge failed: {error}\n")
        return 3
    except KeyboardInterrupt:
        sys.stderr.write("evaluator: interrupted; every rank has been ended\n")
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m evaluator", description="The judge of ParallelKernelBench.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_run(commands)
    _add_batch(commands)
    listing = commands.add_parser("problems", help="list the problems")
    listing.add_argument("--json", action="store_true", help="as an array of objects")
    listing.set_defaults(command=list_problems)
    probing = commands.add_parser("probe", help="facts about this machine, and the profiles that it can judge")
    probing.add_argument("--json", action="store_true")
    probing.add_argument("--machine", action="store_true", help="draft a machine file for PKB_MACHINES")
    probing.add_argument("--measure", action="store_true", help="measure ceilings, and keep them with the profile")
    probing.add_argument("--profile", default=DEFAULT_PROFILE, help="whose ranks measure (with --measure)")
    probing.add_argument("--output", type=Path, help="another file to write (with --measure)")
    probing.set_defaults(command=probe)
    baseline = commands.add_parser("baseline", help="measure references; writes problems/data/baselines/PROFILE.json")
    baseline.add_argument("problems", nargs="*", metavar="SLUG", help="default: every problem")
    baseline.add_argument("--profile", default=DEFAULT_PROFILE)
    baseline.add_argument("--output", type=Path, help="another file to write")
    baseline.add_argument("--missing", action="store_true", help="only those missing or of an older revision")
    baseline.add_argument("--sweep", action="store_true", help="at points of axes, into problems/data/sweeps")
    baseline.set_defaults(command=measure_baselines)
    again = commands.add_parser("recompute", help="compute a report's score and verdict again; exit 0 if they agree")
    again.add_argument("report", type=Path, metavar="REPORT.json", help="from `run --json`, or the API's evaluation")
    again.add_argument("--json", action="store_true")
    again.set_defaults(command=compute_again)
    examining = commands.add_parser(
        "doctor", help="what this machine's sandbox can enforce; exit 0 if it may do ranked public work"
    )
    examining.add_argument("--profile", default=DEFAULT_PROFILE)
    examining.add_argument("--json", action="store_true")
    examining.set_defaults(command=examine)
    return parser


def _add_run(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    run = commands.add_parser("run", help="judge a submission; exit 0 exactly when it passed")
    run.add_argument("problem", metavar="SLUG")
    run.add_argument("source", type=Path, metavar="FILE", help="a .py file, a directory or a .zip with solution.py")
    run.add_argument("--profile", default=DEFAULT_PROFILE, help="its name, or auto for the best one of this machine")
    run.add_argument("--backend", choices=[backend.value for backend in Backend], default=Backend.PYTORCH.value)
    run.add_argument(
        "--size",
        action="append",
        default=[],
        metavar="NAME",
        help="tiny, base or large, or in mode sweep a point such as base:M=512; can be given several times",
    )
    run.add_argument("--mode", choices=[mode.value for mode in Mode], default=Mode.CHECK.value)
    run.add_argument("--regime", default="", metavar="NAME", help="only calls in this regime (mode check)")
    run.add_argument("--one-world-size", action="store_true", help="no second check on more CPU ranks (mode check)")
    run.add_argument("--dtype", help="dtype of inputs marked `input`, one of the problem's (default: bfloat16)")
    run.add_argument("--sandbox", choices=[choice.value for choice in SandboxChoice], default=SandboxChoice.AUTO.value)
    run.add_argument("--allow-unsandboxed", action="store_true", help="run without a sandbox where none is possible")
    run.add_argument("--call-limit", type=float, default=JudgeSettings.call_limit_s, metavar="SECONDS")
    run.add_argument("--json", action="store_true", help="the report on standard output")
    run.set_defaults(command=judge_one)


def _add_batch(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    batch = commands.add_parser(
        "batch", help="judge a file of requests at this machine's full use; exit 0 once each has its verdict"
    )
    batch.add_argument("requests", type=Path, metavar="REQUESTS.jsonl[.gz]", help="one evaluation request per line")
    batch.add_argument("--profile", required=True, help="the profile of the requests")
    batch.add_argument(
        "--output", type=Path, required=True, metavar="FOLDER", help="for results; a second call resumes"
    )
    batch.add_argument("--seconds", type=float, default=float("inf"), help="every process has ended before so many")
    batch.add_argument("--builders", type=int, metavar="N", help="how many compile at once (default: as a node does)")
    batch.add_argument(
        "--waiting", type=int, default=8, metavar="N", help="at most so many wait compiled (default: %(default)s)"
    )
    batch.add_argument("--renew", action="store_true", help="use the problems' revisions here, not the requests'")
    batch.add_argument("--work-dir", type=Path, metavar="FOLDER", help="for the judge's files and the cache of builds")
    batch.add_argument("--allow-unsandboxed", action="store_true", help="run without a sandbox where none is possible")
    batch.set_defaults(command=judge_batch)


def judge_batch(options: argparse.Namespace) -> int:
    """`batch`: judge what has no verdict in the folder yet; exit 0 if nothing is left, 1 if something is."""
    ends_at = time.monotonic() + options.seconds
    profile = profiles.get(options.profile)
    requests, results = read_requests(options.requests), Results(options.output)
    cgroups.enter_leaf_group()
    batch = Batch(
        settings=JudgeSettings(
            profile=profile.name,
            work_dir=_folder(options.work_dir),
            allow_unsandboxed=options.allow_unsandboxed,
            cross_check=True,
        ),
        builders=builders_here(profile) if options.builders is None else options.builders,
        waiting=options.waiting,
        ends_at=ends_at,
        results=results,
        say=_say_line,
        renews=options.renew,
    )
    signal.signal(signal.SIGTERM, lambda *_: batch.stop())
    quarantine = batch.run(requests)
    left = sum(1 for _ in results.outstanding(requests))
    _say_line(batch.summary())
    _say_line(f"{len(requests) - left} of {len(requests)} have their verdict, {left} are left")
    if quarantine:
        raise EvaluatorError(f"the slot is in quarantine: {quarantine}. Clean the machine, then call again")
    return 1 if left else 0


def _folder(path: Path | None) -> Path | None:
    """`path` as a private folder that exists."""
    if path is not None:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def _say_line(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def judge_one(options: argparse.Namespace) -> int:
    """`run`: judge one submission and show its report."""
    options.profile = _resolved(options.profile)
    request = _request(options)
    settings = JudgeSettings(
        profile=options.profile,
        sandbox=SandboxChoice(options.sandbox),
        allow_unsandboxed=options.allow_unsandboxed,
        call_limit_s=options.call_limit,
        warm=False,
        cross_check=not options.one_world_size,
    )
    with Judge(settings) as judge:
        report = judge.evaluate(request, progress=no_progress if options.json else _show_progress)
    sys.stdout.write(report.to_json() + "\n" if options.json else presentation.report_text(report))
    return 0 if report.verdict is Verdict.PASSED else 1


def _resolved(profile: str) -> str:
    """The profile of that name; for "auto" the best one of this machine, which is said."""
    if profile != best_profile.AUTO:
        return profile
    choice = best_profile.here()
    sys.stderr.write(f"{choice.words}\n")
    return choice.profile


def _request(options: argparse.Namespace) -> EvaluationRequest:
    profile = profiles.get(options.profile)
    problem = registry.get(options.problem)
    sizes = _sizes(options, problem, profile)
    refusal = problem.refuses(profile.world_size, sizes or profile.sizes[Mode(options.mode)])
    if refusal is not None:
        raise UsageError(f"problem {problem.slug} cannot run on {profile.name}: {refusal}")
    regime, dtype = _regime(options, problem), _dtype(options, problem)
    return EvaluationRequest(
        evaluation_id="local",
        problem=problem.slug,
        revision=registry.revision(problem.slug),
        source=read_source(options.source),
        backend=Backend(options.backend),
        profile=profile.name,
        mode=Mode(options.mode),
        sizes=sizes,
        dtype=dtype,
        regime=regime,
    )


def _sizes(options: argparse.Namespace, problem: Problem, profile: Profile) -> tuple[str, ...]:
    """The sizes asked for, in mode sweep points; () for the profile's; raises UsageError."""
    if Mode(options.mode) is Mode.SWEEP:
        try:
            swept = points.swept(problem, profile, options.size)
        except points.NoSweep as error:
            raise UsageError(str(error)) from error
        held = max(held_bytes(problem, problem.dims(point.name, profile.world_size)) for point in swept)
        sys.stderr.write(
            f"points measured: {len(swept)}, {swept[0].axis.name} {swept[0].value:,} to {swept[-1].value:,} "
            f"{swept[0].axis.unit}; a rank holds at most {held / 1e6:,.3f} MB of inputs and outputs\n"
        )
        return tuple(point.name for point in swept)
    if unknown := sorted(set(options.size) - set(SizeName)):
        raise UsageError(f"--size {', '.join(unknown)} in mode {options.mode}: choose {', '.join(SizeName)}")
    return tuple(options.size)


def _dtype(options: argparse.Namespace, problem: Problem) -> str | None:
    """The requested dtype; raises UsageError where the problem does not support it."""
    name: str | None = options.dtype
    if name is not None and name not in problem.dtypes:
        raise UsageError(f"problem {problem.slug} can be judged in dtype {', '.join(problem.dtypes)}, not in {name}")
    if name not in {None, problem.dtypes[0]} and Mode(options.mode) in (Mode.RANKED, Mode.SWEEP):
        raise UsageError(
            f"{options.mode} evaluations use dtype {problem.dtypes[0]}: leave --dtype out, or use --mode check"
        )
    return name


def _regime(options: argparse.Namespace, problem: Problem) -> str:
    """The requested regime; raises UsageError where it cannot be judged alone."""
    name: str = options.regime
    if not name:
        return ""
    if Mode(options.mode) is not Mode.CHECK:
        raise UsageError(f"--regime {name} judges in mode check, not in {options.mode}: leave --mode out")
    try:
        regime = problem.regime(name)
    except UnknownRegime as error:
        raise UsageError(str(error)) from error
    world_size = profiles.get(options.profile).world_size
    if world_size < regime.least_world_size:
        raise UsageError(
            f"--regime {name} needs {regime.least_world_size} ranks, and {options.profile} has {world_size}"
        )
    return name


def _show_progress(stage: Stage, detail: str, _fraction: float | None, _points: tuple[SweepPoint, ...] = (), /) -> None:
    sys.stderr.write(f"{stage.value}: {detail}\n")


def compute_again(options: argparse.Namespace) -> int:
    """`recompute`: whether a report's own calls give its score, interval and verdict on the times."""
    try:
        report = _read_report(options.report.read_bytes())
    except OSError as error:
        raise UsageError(f"cannot read {options.report}: {error.strerror}") from error
    except ContractError as error:
        raise UsageError(f"{options.report} is not a report of this judge: {error}") from error
    found = recompute(report)
    if options.json:
        sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
    else:
        sys.stdout.write(presentation.recomputed_text(report, found))
    return 0 if found.agrees else 1


def _read_report(text: bytes) -> EvaluationReport:
    """The report in `text`, which is a report or the API's answer about an evaluation; raises ContractError."""
    with contextlib.suppress(msgspec.ValidationError, msgspec.DecodeError):
        text = bytes(msgspec.json.decode(text, type=_ApiEvaluation).report)
    return EvaluationReport.from_json(text)


def list_problems(options: argparse.Namespace) -> int:
    """`problems`: every problem with its sizes."""
    every = [_problem_record(problem) for problem in registry.problems()]
    if options.json:
        sys.stdout.write(json.dumps(every, indent=1) + "\n")
    else:
        for record in every:
            sys.stdout.write(f"{record['number']:>3}  {record['slug']:<32} {record['title']}\n")
    return 0


def _problem_record(problem: Problem) -> dict[str, object]:
    return {
        "number": problem.number,
        "slug": problem.slug,
        "title": problem.title,
        "summary": problem.summary,
        "revision": registry.revision(problem.slug),
        "signature": problem.signature,
        "world_sizes": problem.world_size_rule,
        "sizes": {size.value: problem.sizes[size].system for size in SizeName},
    }


def probe(options: argparse.Namespace) -> int:
    """`probe`: facts about this machine, the profiles that it can judge; or its ceilings, or a draft of its file."""
    if options.machine:
        try:
            sys.stdout.write(machine_draft.text(machine_draft.look()))
        except EvaluatorError as error:
            raise UsageError(str(error)) from error
        return 0
    if options.measure:
        return _measure_ceilings(options)
    found = facts.facts()
    if options.json:
        sys.stdout.write(json.dumps(found, indent=1) + "\n")
    else:
        for name, value in found.items():
            shown = ", ".join(map(str, value)) if isinstance(value, list) else value
            sys.stdout.write(f"{name:<18} {shown}\n")
    return 0


def _refuse_untimed(profile: Profile) -> None:
    if not profile.measures_time:
        raise UsageError(f"profile {profile.name} times nothing, because all ranks share one GPU: choose another one")


def _measure_ceilings(options: argparse.Namespace) -> int:
    _refuse_untimed(profiles.get(options.profile))
    found = ceiling_run.measure(options.profile)
    text = msgspec.json.format(found.to_json().encode(), indent=1) + b"\n"
    _replace(options.output or ceilings.FOLDER / f"{found.profile}.json", text)
    sys.stdout.write(text.decode() if options.json else presentation.ceilings_text(found))
    return 0


def _replace(path: Path, content: bytes) -> None:
    """Write the file whole or leave it as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_suffix(".tmp")
    scratch.write_bytes(content)
    scratch.replace(path)


def measure_baselines(options: argparse.Namespace) -> int:
    """`baseline`: measure references and merge them into the profile's file after each; exit 1 if one could not run."""
    profile = profiles.get(options.profile)
    _refuse_untimed(profile)
    slugs = [registry.get(slug).slug for slug in options.problems] or [item.slug for item in registry.problems()]
    mode = Mode.SWEEP if options.sweep else Mode.RANKED
    slugs = [slug for slug in slugs if baselines.sizes(registry.get(slug), profile, mode)]
    path = options.output or registry.DATA / ("sweeps" if options.sweep else "baselines") / f"{profile.name}.json"
    known = _known_baselines(path)
    if options.missing:
        slugs = [slug for slug in slugs if not _is_measured(slug, known, profile, mode)]
    waiting, failed = deque(slugs), []
    while waiting:
        # Ranks that one problem ended, such as by a lack of memory, are replaced for the next problems.
        with baselines.ranks(JudgeSettings(profile=profile.name)) as trusted:
            while waiting:
                slug = waiting.popleft()
                try:
                    for size, found in baselines.measure(trusted, profile, slug, mode=mode):
                        known[slug] = {**known.get(slug, {}), size: found}
                        sys.stdout.write(f"{slug:<32} {size:<23} {found.median_us:12.1f} us  ({found.calls} calls)\n")
                        sys.stdout.flush()
                except EvaluatorError as error:
                    failed.append(slug)
                    sys.stderr.write(f"{slug}: {error}\n")
                    break
                table = baselines.table(profile.name, known).to_json().encode()
                _replace(path, msgspec.json.format(table, indent=1) + b"\n")
    return 1 if failed else 0


def _known_baselines(path: Path) -> dict[str, dict[str, Baseline]]:
    """The baselines of a file by the present clock; times by an earlier clock are dropped."""
    if not path.is_file():
        return {}
    table = BaselineTable.from_json(path.read_bytes())
    return dict(table.baselines) if table.rule == SCORE_RULE else {}


def _is_measured(slug: str, known: dict[str, dict[str, Baseline]], profile: Profile, mode: Mode) -> bool:
    """Whether the present revision has a baseline at every size of `mode`."""
    found, revision = known.get(slug, {}), registry.revision(slug)
    return all(
        size in found and found[size].revision == revision
        for size in baselines.sizes(registry.get(slug), profile, mode)
    )


def examine(options: argparse.Namespace) -> int:
    """`doctor`: which properties of the sandbox hold, which messages are kept; exit 0 if the level is reached."""
    profile = profiles.get(options.profile)
    found = _survey(profile)
    needs = profile.sandbox.value
    if options.json:
        record = {
            "level": found.level.value,
            "demanded": needs,
            "probes": [dataclasses.asdict(item) for item in found.probes],
            "refused_messages": _refused_messages(),
        }
        sys.stdout.write(json.dumps(record, indent=1) + "\n")
    else:
        sys.stdout.write(presentation.confinement_text(found, profile=profile))
        for refusal in _refused_messages():
            sys.stdout.write(f"refused: {refusal}\n")
    return 0 if found.level.is_at_least(profile.sandbox) else 1


def _refused_messages() -> list[str]:
    """The reports of this machine's nodes that the site refused, with the reasons."""
    data_dir = Path(os.environ.get("PKB_DATA_DIR") or Path(__file__).resolve().parents[1] / "var")
    chosen = os.environ.get("PKB_NODE_SPOOL_DIR")
    folders = [Path(chosen)] if chosen else sorted((data_dir / "spool").glob("*"))
    return [refusal for folder in folders for refusal in spool.refusals(folder)]


def _survey(profile: Profile) -> bubblewrap.Confinement:
    with tempfile.TemporaryDirectory(prefix="pkb-doctor-") as directory:
        settings = JudgeSettings(profile=profile.name, allow_unsandboxed=True)
        user = SlotUser.take(settings.users)
        try:
            return doctor.resolve_in(Path(directory), profile=profile, settings=settings, user=user)
        finally:
            if user is not None:
                user.close()
