"""The four tiers of tests, by what a test needs: quick, test, integration, gate. A pytest plugin.

`--tier NAME` runs one tier; without it everything that the command line names is run. A tier ends with what it ran, and
with what it left out and where that runs.

- quick: pure logic without a database, and the problems that changed.
- test: quick, tests with a database or real ranks, and a part of the matrix of problems. It needs no server.
- integration: servers, a browser, compilers, whole installations.
- gate: everything marked `slow`, and the whole matrix of problems.

The matrix of problems is every program of every problem in every regime. Its keys are fixed, so a problem that did not
change has the same outcomes. `test` runs the changed problems in full. Of each other problem it runs the reference, one
mutant and one honest program, and of what is left a random tenth: PKB_TEST_SEED repeats a choice.

Machines differ threefold, and continuous integration is cut off at a limit. Where PKB_TESTS_UNTIL names a time, in
seconds since 1970, no test begins after it. The tier then counts what did not begin.

Files run in the seed's order, those that take minutes first: so no worker waits for the other at the end, and it is not
always the same files that a limit leaves out.
"""

import ast
import fnmatch
import hashlib
import os
import re
import secrets
import subprocess
import time
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import hypothesis
import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from problems import registry

ROOT = Path(__file__).resolve().parent.parent
PASSED_AT = Path(__file__).parent / "problems" / "matrix_passed_at"
"""Holds the commit at which the whole matrix last passed. `make gate` renews it."""
TIERS = ("quick", "test", "integration", "gate")
COMMANDS = {"quick": "make quick", "test": "make test", "integration": "make integration", "gate": "make gate"}
SHARE = 10
"""One in so many cases of the matrix is drawn for `test`."""
MOST_IN_QUICK = 4
"""With more changed problems than this, `quick` takes of each what `test` takes of an unchanged one."""

MATRIX = (
    "problems/test_programs.py",
    "problems/test_regimes.py",
    "problems/test_precision.py",
    "problems/test_cost_counters.py",
)
INTEGRATION = (
    "browser/*",
    "chaos/*",
    "portal/production/*",
    "portal/operations/*",
    "portal/artefacts/*",
    "portal/pages/test_worst_texts.py",
    "portal/api/test_schema.py",
    "portal/test_broker.py",
    "portal/test_faults.py",
    "client/test_generate.py",
    "client/test_inspect.py",
    "client/test_quick_start.py",
    "client/test_runs.py",
    "client/test_submitting.py",
    "client/test_tools.py",
    "client/test_trying_again.py",
    "client/test_verifiers.py",
    "deploy/test_borrowed.py",
    "deploy/test_operating.py",
    "deploy/test_restarts.py",
    "evaluator/test_batch.py",
    "evaluator/test_breaking.py",
    "evaluator/test_build_ahead.py",
    "evaluator/test_builder.py",
    "evaluator/test_cli.py",
    "evaluator/test_deadlines.py",
    "evaluator/test_faults.py",
    "evaluator/test_hanging_driver.py",
    "evaluator/test_kept_ranks.py",
    "evaluator/test_lost_ranks.py",
    "evaluator/test_noise.py",
    "evaluator/test_nvcc_steps.py",
    "evaluator/test_short_headers.py",
    "evaluator/test_waiting_groups.py",
    "test_changelog.py",
)
"""Files whose tests start servers, installations, commands or compilers, or end the judge's processes and wait."""
TOGETHER = ("tests/browser/", "tests/client/", "tests/portal/operations/")
"""Folders whose tests share a site: one worker has all of a folder, and starts one."""
LONG = (
    "tests/browser/",
    "tests/client/",
    "tests/evaluator/test_cheats.py",
    "tests/evaluator/test_verdicts_on_ranks.py",
    "tests/portal/access/test_matrix.py",
    "tests/portal/production/test_main_job.py",
    "tests/problems/*",
)
"""What takes a worker minutes, by folder of TOGETHER or by file."""
WITHOUT_SERVERS = ("docs", "problems")
"""Folders without a test of `integration`, which need not be read for it: the matrix has thousands of cases."""
QUICK = (
    "client/test_noisy_times.py",
    "client/test_results.py",
    "deploy/test_documented_commands.py",
    "deploy/test_requirements.py",
    "deploy/test_units.py",
    "docs/*",
    "evaluator/test_arguments_and_outputs_of_other_forms.py",
    "evaluator/test_backends.py",
    "evaluator/test_call_buffer.py",
    "evaluator/test_call_checks.py",
    "evaluator/test_call_inputs.py",
    "evaluator/test_channel.py",
    "evaluator/test_cpu_sets.py",
    "evaluator/test_diagnosis.py",
    "evaluator/test_driver_faults.py",
    "evaluator/test_error_map.py",
    "evaluator/test_evaluation_*.py",
    "evaluator/test_gpu_*.py",
    "evaluator/test_judge_manual.py",
    "evaluator/test_judging_*.py",
    "evaluator/test_source_archives.py",
    "evaluator/test_throttling.py",
    "evaluator/test_wrong_values.py",
    "portal/*",
    "problems/test_catalog.py",
    "problems/test_comparison.py",
    "problems/test_registry.py",
    "problems/test_schema.py",
)
"""Files whose tests start no process. Their tests with a database belong to `test`, which is seen by itself."""
NEEDS_A_DATABASE = frozenset({"db", "transactional_db", "django_db_setup", "live_server"})
NEEDS_SERVERS = frozenset({"stack", "live_server", "site"})


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tier", choices=TIERS, help="run the tests of one tier (tests/tiers.py)")
    parser.addoption("--problem", type=int, metavar="N", help="only the tests that are about problem number N")


def pytest_configure(config: pytest.Config) -> None:
    """Draw the seed where the workers of a parallel run inherit it, and fix Hypothesis' values but for the gate.

    A change is refused for what it did, not for what was drawn. `make gate`, and a file run by itself, draw anew.
    Torch has one thread in each worker: two workers with as many threads as processors wait for one another.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("PKB_TEST_SEED", secrets.token_hex(4))
    if config.getoption("--tier") not in (None, "gate"):
        hypothesis.settings.register_profile("the same values", hypothesis.settings(), derandomize=True)
        hypothesis.settings.load_profile("the same values")
        config.option.loadscopereorder = False  # xdist would run the files with the most tests first
    config.pluginmanager.register(Tiers(config), "tiers")


class Tiers:
    """Chooses the tests of the tier, counts what was left out, and says so at the end."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._tier: str | None = config.getoption("--tier")
        self._left_out: Counter[str] = Counter()
        self._ran: Counter[str] = Counter()
        self._is_whole_matrix = False

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        if (number := config.getoption("--problem")) is not None:
            _keep(config, items, _of_problem(items, number))
        if self._tier is None:
            return
        self._is_whole_matrix = _is_whole(config, items)
        tiers = {item: tier_of(item) for item in items}
        wanted = {"quick", "test"} if self._tier == "test" else {self._tier}
        chosen = {item for item in items if tiers[item] in wanted or self._takes(item, tiers[item])}
        self._left_out = Counter(tiers[item] for item in items if item not in chosen)
        self._ran = Counter(tiers[item] for item in chosen)
        _keep(config, items, chosen)
        items.sort(key=lambda item: _turn(_scope(item.nodeid)))

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        is_left = self._tier == "integration" and collection_path.parent == ROOT / "tests"
        return True if is_left and collection_path.name in WITHOUT_SERVERS else None

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
        return _Scheduling(config, log) if self._tier is not None else None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        if (until := _until()) is not None and time.time() > until:
            pytest.skip("left out: PKB_TESTS_UNTIL has passed")

    def _takes(self, item: pytest.Item, tier: str) -> bool:
        """Whether quick or test also takes this case of the matrix."""
        if tier != "gate" or not is_matrix(item) or self._tier not in ("quick", "test"):
            return False
        changed = changed_problems()
        slug = slug_of(item)
        if slug in changed and (self._tier == "test" or len(changed) <= MOST_IN_QUICK):
            return True
        if self._tier == "quick":
            return slug in changed and _is_canary(item)
        return _is_canary(item) or _is_drawn(item)

    def pytest_report_header(self) -> str | None:
        if self._tier is None:
            return None
        changed = changed_problems()
        said = "all" if len(changed) == len(registry.problems()) else ", ".join(sorted(changed)) or "none"
        return f"tier: {self._tier}; PKB_TEST_SEED={os.environ['PKB_TEST_SEED']}; problems that changed: {said}"

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        output = getattr(self._config, "workeroutput", None)
        if output is not None:
            output["tiers"] = (dict(self._ran), dict(self._left_out), self._is_whole_matrix)
        elif self._tier == "gate" and exitstatus == pytest.ExitCode.OK and self._is_whole_matrix:
            _renew()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        """Take over the counts of a worker; all of them have collected the same."""
        ran, left_out, self._is_whole_matrix = getattr(node, "workeroutput", {}).get("tiers", ({}, {}, False))
        self._ran, self._left_out = Counter(ran), Counter(left_out)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._tier is None:
            return
        terminalreporter.section(f"tier {self._tier}")
        ran = ", ".join(f"{count:,} of tier {tier}" for tier, count in _in_order(self._ran))
        terminalreporter.line(f"chosen: {ran or 'nothing'}; repeat with PKB_TEST_SEED={os.environ['PKB_TEST_SEED']}")
        for tier, count in _in_order(self._left_out):
            terminalreporter.line(f"left out: {count:,} that `{COMMANDS[tier]}` runs")
        if self._tier == "integration":
            folders = " and ".join(f"tests/{name}" for name in WITHOUT_SERVERS)
            terminalreporter.line(f"not read: {folders}, which `make test` and `make gate` run")


class _Scheduling(LoadFileScheduling):
    """Files to workers, and folders of TOGETHER as a whole."""

    def _split_scope(self, nodeid: str) -> str:
        return _scope(nodeid)


def _scope(nodeid: str) -> str:
    """What runs in one worker: a file, or a folder of TOGETHER."""
    file = nodeid.partition("::")[0]
    return next((folder for folder in TOGETHER if file.startswith(folder)), file)


def _turn(scope: str) -> tuple[bool, int]:
    return not _is_in(scope, LONG), _drawn(scope)


def tier_of(item: pytest.Item) -> str:
    """The lowest tier that a test belongs to."""
    path = item.path.relative_to(ROOT / "tests").as_posix()
    if item.get_closest_marker("slow") or is_matrix(item):
        return "gate"
    fixtures = set(getattr(item, "fixturenames", ()))
    marked = item.get_closest_marker("production") or item.get_closest_marker("browser")
    if marked or fixtures & NEEDS_SERVERS or _is_in(path, INTEGRATION):
        return "integration"
    if fixtures & NEEDS_A_DATABASE or item.get_closest_marker("django_db"):
        return "test"
    return "quick" if _is_in(path, QUICK) else "test"


def is_matrix(item: pytest.Item) -> bool:
    """Whether a test is a case of the matrix: about one problem, with the same outcome while that does not change."""
    return _is_in(item.path.relative_to(ROOT / "tests").as_posix(), MATRIX) and slug_of(item) is not None


def slug_of(item: pytest.Item) -> str | None:
    """The problem that a parametrised test is about."""
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    return parameters.get("slug") or getattr(parameters.get("problem"), "slug", None)


@cache
def changed_problems() -> frozenset[str]:
    """The problems whose outcomes may differ from those at the commit in PASSED_AT; all where that is not known."""
    everything = frozenset(problem.slug for problem in registry.problems())
    commit = PASSED_AT.read_text(encoding="utf-8").strip() if PASSED_AT.exists() else ""
    try:
        changed = {ROOT / name for name in _git("diff", "--name-only", commit, "--")}
        changed |= {ROOT / name for name in _git("ls-files", "--others", "--exclude-standard", "--", "problems")}
        pins = _git("diff", "-U0", commit, "--", "requirements*.txt")
    except (subprocess.CalledProcessError, FileNotFoundError):
        return everything
    changed = {path for path in changed if path.suffix in (".py", ".json") and path != PASSED_AT}
    harness = _imports([path for pattern in MATRIX for path in (ROOT / "tests").glob(pattern)])
    before, after = ({line[1:] for line in pins if re.match(rf"[{sign}](torch|numpy)==", line)} for sign in "-+")
    if changed & harness or before != after:
        return everything
    return frozenset(slug for slug in everything if changed & _imports(list(registry.folder(slug).glob("*.py"))))


def _imports(paths: list[Path]) -> set[Path]:
    """The files with all files of problems and of their tests that they import, directly or not."""
    found: set[Path] = set()
    while paths:
        path = paths.pop()
        if path not in found:
            found.add(path)
            paths += _imported_by(path)
    return found


@cache
def _imported_by(path: Path) -> tuple[Path, ...]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    ours = [ROOT.joinpath(*name.split(".")) for name in names if name.startswith(("problems", "tests.problems"))]
    return tuple(path for stem in ours for path in (stem.with_suffix(".py"), stem / "__init__.py") if path.is_file())


def _is_canary(item: pytest.Item) -> bool:
    """The reference, the first honest program and the first wrong one of a problem, at its smallest world size."""
    from problems.harness.calibration import honest_programs, wrong_programs
    from problems.harness.implementation import load

    parameters = item.callspec.params
    if "program" not in parameters or "regime" in parameters:
        return False
    implementation = load(parameters["slug"])
    honest, wrong = honest_programs(implementation), wrong_programs(implementation)
    least = min(size for size in (2, 4) if implementation.problem.refuses_world_size(size) is None)
    return parameters["program"] in {*honest[:2], *wrong[:1]} and parameters["world_size"] == least


def _is_drawn(item: pytest.Item) -> bool:
    return _drawn(item.nodeid) % SHARE == 0


def _drawn(name: str) -> int:
    """A number that the seed gives a name."""
    digest = hashlib.sha256(f"{os.environ['PKB_TEST_SEED']}/{name}".encode()).digest()
    return int.from_bytes(digest[:4])


def _until() -> float | None:
    until = os.environ.get("PKB_TESTS_UNTIL")
    return float(until) if until else None


def _of_problem(items: Iterable[pytest.Item], number: int) -> set[pytest.Item]:
    slugs = {problem.number: problem.slug for problem in registry.problems()}
    if number not in slugs:
        raise pytest.UsageError(f"there is no problem {number}; there are {', '.join(map(str, sorted(slugs)))}")
    return {item for item in items if slug_of(item) == slugs[number]}


def _keep(config: pytest.Config, items: list[pytest.Item], chosen: set[pytest.Item]) -> None:
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = [item for item in items if item in chosen]


def _is_in(path: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatch(path, pattern) for pattern in patterns)


def _in_order(counts: Counter[str]) -> list[tuple[str, int]]:
    return [(tier, counts[tier]) for tier in TIERS if counts[tier]]


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def _is_whole(config: pytest.Config, items: list[pytest.Item]) -> bool:
    """Whether every case of the matrix is among the tests."""
    files = {item.path.relative_to(ROOT / "tests").as_posix() for item in items}
    is_chosen = config.getoption("keyword") or config.getoption("markexpr") or config.getoption("--problem")
    return set(MATRIX) <= files and not is_chosen and all("::" not in argument for argument in config.args)


def _renew() -> None:
    """Write the commit into PASSED_AT, unless files of problems or of their tests differ from it."""
    if _git("status", "--porcelain", "--", "problems", "tests/problems", "requirements.txt"):
        return
    PASSED_AT.write_text(_git("rev-parse", "HEAD")[0] + "\n", encoding="utf-8")
