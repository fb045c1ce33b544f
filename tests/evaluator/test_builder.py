"""The builder: what it finds to build, what it says of errors, what it keeps, and what it does not let out."""

import contextlib
import math
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from evaluator.contract import Backend, EvaluationRequest, Mode, SourceBundle, SourceFile, Verdict
from evaluator.errors import Cancelled, LimitExceeded, NodeFailure
from evaluator.hardware import profiles
from evaluator.host.building import code_listing, disassembly
from evaluator.host.building.build_record import MAX_FINDINGS, Origin, find_errors
from evaluator.host.building.builder import Builder, Built
from evaluator.host.building.builder_process import BuildLimits
from evaluator.host.building.what_to_build import is_needed
from evaluator.host.machine.facts import sources_digest
from evaluator.host.process.deadlines import MOST_OVERRUN_S, NO_DEADLINES, Deadlines
from evaluator.host.sandbox import bubblewrap, doctor
from evaluator.host.sandbox.slot_claims import SlotUser
from evaluator.host.settings import JudgeSettings
from tests.evaluator.building_help import build_job, build_request
from tests.stack import wait_until

SUBMISSIONS = Path(__file__).parent / "submissions"
PROFILE = "h200x2-nomc"
HEADER = "import functools\nfrom utils.cuda_helpers import compile_cuda_extension\n\n"

needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on this machine")
pytestmark = [
    needs_nvcc,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="no bubblewrap on this machine"),
    pytest.mark.timeout(300),
]


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    return JudgeSettings(profile=PROFILE, work_dir=tmp_path_factory.mktemp("slot"))


@pytest.fixture(scope="module")
def confinement(settings, tmp_path_factory):
    private = tmp_path_factory.mktemp("survey")
    bubblewrap.write_private(private)
    return doctor.resolve(profiles.get(PROFILE), settings, private=private)


@pytest.fixture
def build(settings, confinement, tmp_path):
    def build(
        files: dict[str, str] | str, *, limits: BuildLimits | None = None, deadlines: Deadlines = NO_DEADLINES
    ) -> Built:
        if isinstance(files, str):
            files = {"solution.py": files}
        bundle = SourceBundle(files=tuple(SourceFile(path=path, text=text) for path, text in sorted(files.items())))
        request = EvaluationRequest(
            evaluation_id="e1", problem="allgather", revision="r", source=bundle, backend=Backend.CUDA,
            profile=PROFILE, mode=Mode.CHECK,
        )  # fmt: skip
        return Builder(settings, limits=limits).build(
            request, workdir=tmp_path, sandbox=confinement, deadlines=deadlines
        )

    return build


def submission(name: str) -> str:
    return (SUBMISSIONS / f"{name}.py").read_text()


def tiny_module(name: str, body: str = "") -> str:
    """CUDA source of an extension with nothing of torch in it, so that it compiles fast."""
    return f"""#include <Python.h>
__global__ void kernel(int* out) {{ out[threadIdx.x] = 1; {body} }}
static PyModuleDef definition = {{PyModuleDef_HEAD_INIT, "{name}", nullptr, -1, nullptr}};
extern "C" __attribute__((visibility("default"))) PyObject* PyInit_{name}() {{ return PyModule_Create(&definition); }}
"""


def test_an_extension_asked_for_by_a_cached_function_is_built_and_found_again(build, tmp_path):
    source = HEADER + (
        f"CUDA = r'''{tiny_module('tiny_one')}'''\n\n"
        "@functools.cache\ndef extension():\n    return compile_cuda_extension('tiny_one', CUDA)\n\n"
        "def solution(tensor):\n    return extension().run(tensor)\n"
    )
    first = build(source)
    assert first.result.succeeded, first.result.log
    assert not first.result.cached
    assert "sm_90a" in first.result.command
    assert [Path(name).name for name in first.result.artefacts] == ["tiny_one.so"]

    again = build(source)
    assert again.result.cached
    assert again.result.artefacts == first.result.artefacts

    target = tmp_path / "built"
    target.mkdir()
    again.copy_to(target)
    assert _found_by_ranks(target, source)


def _found_by_ranks(built: Path, source: str) -> bool:
    """Whether a rank that runs `source` loads the module from `built`, without compiling anything."""
    import subprocess
    import sys

    compat = Path(bubblewrap.__file__).parents[2] / "arena" / "compat"
    (built.parent / "solution.py").write_text(source)
    code = "import solution; print(solution.extension().__file__)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=built.parent,
        env={"PYTHONPATH": f"{compat}:{built.parent}", "PKB_BUILT": str(built), "PATH": "/nonexistent"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.startswith(str(built))


def test_an_error_is_shown_in_full_and_at_its_line_of_the_submission(build):
    source = submission("gpu_allgather_compile_error")
    built = build(source)
    assert not built.result.succeeded
    (finding,) = built.findings
    assert finding.verdict is Verdict.COMPILE_ERROR
    assert finding.file == "solution.py"
    assert "byte_count" in source.splitlines()[finding.line - 1]
    assert 'identifier "byte_count" is undefined' in built.result.log
    assert "nvcc" in built.result.command
    assert build(source).findings == built.findings, "a kept failure says the same"


def test_an_error_in_a_cu_file_of_a_zip_names_that_file(build):
    built = build(
        {
            "solution.py": HEADER
            + "from pathlib import Path\n"
            + "CUDA = Path(__file__).with_name('kernel.cu').read_text()\n"
            + "def extension():\n    return compile_cuda_extension('from_file', CUDA)\n"
            + "def solution(tensor):\n    return extension()\n",
            "kernel.cu": tiny_module("from_file", "out[0] = missing_name;"),
        }
    )
    (finding,) = built.findings
    assert (finding.file, finding.line) == ("kernel.cu", 2)


def test_a_call_hidden_in_a_function_with_arguments_is_built_from_the_text(build):
    source = HEADER + (
        f"CUDA = r'''{tiny_module('hidden')}'''\n\n"
        "def solution(tensor):\n    return compile_cuda_extension('hidden', CUDA).run(tensor)\n"
    )
    assert [Path(name).name for name in build(source).result.artefacts] == ["hidden.so"]


def test_the_sandbox_has_the_short_headers(build):
    included = "#if 0\n#include <torch/extension.h>\n#endif\n#include <named_by_the_source.h>\n"
    built = build(
        HEADER + f"CUDA = r'''{included}{tiny_module('shortly')}'''\ncompile_cuda_extension('shortly', CUDA)\n"
    )
    assert [Path(name).name for name in built.result.artefacts] == ["shortly.so"], built.result.log
    assert "utils/headers" in built.result.command


def test_a_submission_that_fails_on_import_leaves_that_to_the_ranks(build):
    built = build(HEADER + "raise RuntimeError('no device')\n")
    assert built.result.succeeded
    assert not built.result.artefacts
    assert "no device" in built.result.log


def test_a_build_that_takes_too_long_is_over_the_limit(build):
    built = build(HEADER + "while True:\n    pass\n", limits=BuildLimits(seconds=4))
    assert [finding.verdict for finding in built.findings] == [Verdict.LIMIT_EXCEEDED]
    assert "4 s" in built.findings[0].message


ENDLESS = {
    "an endless import": "while True:\n    pass\n",
    "children of a session of their own": (
        "import os, signal, time\nfor _ in range(50):\n    if os.fork() == 0:\n        os.setsid()\n"
        "        signal.signal(signal.SIGTERM, signal.SIG_IGN)\n        time.sleep(3600)\n"
        "while True:\n    time.sleep(1)\n"
    ),
    "a process that stopped itself": "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)\n",
    "templates without end": (
        "CUDA = r'''template<long n> struct S {\n"
        "  static const long v = S<n - 1>::v + S<n - 2>::v + S<n * 3 % 1000000007>::v;\n};\n"
        "__global__ void k(long* out) { out[0] = S<900000>::v; }'''\n"
        "compile_cuda_extension('endless', CUDA, extra_cuda_cflags=['-ftemplate-depth=1000000'])\n"
    ),
    "memory in place of time": "held = []\nwhile True:\n    held.append(bytearray(1 << 20))\n",
}


@pytest.mark.parametrize("what", ENDLESS)
def test_a_build_ends_with_the_evaluation_that_waits_for_it(build, tmp_path, what):
    deadlines = Deadlines(time.monotonic() + 3)
    built = build(HEADER + ENDLESS[what] + "def solution(tensor):\n    return tensor\n", deadlines=deadlines)
    assert time.monotonic() < deadlines.evaluation + MOST_OVERRUN_S
    # A process that ends by itself has built nothing, which is left to the ranks.
    assert built.findings or what in ("memory in place of time", "a process that stopped itself")
    assert {finding.verdict for finding in built.findings} <= {Verdict.LIMIT_EXCEEDED, Verdict.COMPILE_ERROR}
    assert not list(tmp_path.iterdir())


def test_what_is_ready_only_after_the_deadline_is_not_kept(build):
    source = FORGED + "send(b'%032x/m.so' % 77, bytes(1_000_000))\n" + END
    late = build(source, deadlines=Deadlines(time.monotonic()))
    assert [finding.verdict for finding in late.findings] == [Verdict.LIMIT_EXCEEDED]
    assert not build(source).result.cached, "a reading that was cut short is made again"


def test_a_builder_sees_no_host_file_and_no_network_and_sends_only_named_files(build, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("the host's")
    built = build(
        HEADER
        + "import json, os, socket, struct, sys\noutput = json.loads(sys.argv[1])['output']\n"
        + f"sys.stderr.write('secret seen: %s\\n' % os.path.exists({str(secret)!r}))\n"
        + "sys.stderr.write('interfaces: %s\\n' % [name for _, name in socket.if_nameindex()])\n"
        + "os.write(output, struct.pack('<4sIQ', b'PKBf', 15, 4) + b'../../escape.so' + b'evil')\n"
    )
    assert "secret seen: False" in built.result.log
    assert "interfaces: ['lo']" in built.result.log
    assert not built.result.artefacts
    assert not list(tmp_path.rglob("escape*"))


def test_a_flood_of_output_is_over_the_limit(build):
    flood = (
        HEADER + "import json, os, sys\nwhile True:\n    os.write(json.loads(sys.argv[1])['output'], b'x' * 65536)\n"
    )
    built = build(flood, limits=BuildLimits(sent_bytes=1024**2))
    assert [finding.verdict for finding in built.findings] == [Verdict.LIMIT_EXCEEDED]


def test_nothing_of_a_build_stays_in_the_work_directory(build, tmp_path):
    build(HEADER + "leftover = 1\n")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("k.cu(3): error: expected a ;", ("solution.py", 12, "expected a ;")),
        ("k.cu:4:9: error: 'x' was not declared", ("solution.py", 13, "'x' was not declared")),
        ("k.cu:1:10: fatal error: no.h: No such file", ("solution.py", 10, "no.h: No such file")),
        ("k.cu:5: Error: no such instruction: `trap'", ("solution.py", 14, "no such instruction: `trap'")),
        ("/source/part.cuh(7): error #20: gone", ("part.cuh", 7, "gone")),
        ("ptxas k.ptx, line 9; error   : Illegal use", ("solution.py", None, "Illegal use")),
        ("/usr/bin/ld: cannot find -lnone: No such file", ("solution.py", None, "cannot find -lnone: No such file")),
    ],
)
def test_each_compilers_errors_are_placed(line, expected):
    (finding,) = find_errors(f"nvcc -c k.cu\n{line}\n", origin=Origin(name="k", file="solution.py", line=10))
    assert (finding.file, finding.line, finding.message) == expected


def test_an_error_that_a_compiler_repeats_is_shown_once():
    log = "k.cu: Assembler messages:\n" + "k.cu:5: Error: no such instruction: `trap'\n" * 3
    assert len(find_errors(log, origin=Origin(name="k", file="solution.py", line=10))) == 1


def test_a_failure_without_a_recognised_line_is_still_a_finding():
    (finding,) = find_errors("Killed\n", origin=Origin(name="k", file=None, line=None))
    assert finding.verdict is Verdict.COMPILE_ERROR


FORGED = (
    HEADER
    + """import json, os, struct, sys
out = json.loads(sys.argv[1])['output']

def send(name, content):
    data = struct.pack('<4sIQ', b'PKBf', len(name), len(content)) + name + content
    while data:
        data = data[os.write(out, data):]

"""
)


END = "send(b'result.json', json.dumps(dict(extensions=[], notes=[])).encode())\nos._exit(0)\n"


def claim(log: str, *, extensions: str = "1", notes: str = "[]") -> str:
    """The source of a build that says of itself what it likes."""
    return (
        FORGED
        + f"one = dict(name='x', succeeded=False, seconds=1.0, log={log}, is_certain=True, file=None, line=1)\n"
        + f"claim = dict(extensions=[one] * {extensions}, notes={notes})\n"
        + "send(b'result.json', json.dumps(claim).encode())\nos._exit(0)\n"
    )


@pytest.mark.parametrize(
    "source",
    [
        claim("'x.cu(3): error: ' + 'y' * 7_000_000"),
        claim("'nvcc ' + 'y' * 7_000_000"),
        claim("'x.cu(3): error: no\\n' * 10_000", extensions="30"),
        claim("'x.cu(' + '9' * 6_000 + '): error: no'"),
        claim("''", extensions="20_000"),
        claim("''", notes="['n' * 100_000] * 60"),
    ],
    ids=["a long message", "a long command", "many errors", "a line of 6,000 digits", "many extensions", "notes"],
)
def test_what_a_build_says_of_itself_is_cut_to_what_a_report_can_hold(build, source):
    built = build(source)
    assert len(built.result.to_json()) + sum(len(finding.to_json()) for finding in built.findings) < 1_500_000
    assert len(built.findings) <= MAX_FINDINGS
    assert {finding.verdict for finding in built.findings} == {Verdict.COMPILE_ERROR}


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (
            FORGED + "for number in range(1000):\n    send(b'%032x/m.so' % number, b'x')\nos._exit(0)\n",
            "more than 256 files",
        ),
        (claim("'y' * 100_000_000"), "the result of the build exceeds"),
    ],
    ids=["a thousand modules of one byte", "a result of 100 MB"],
)
def test_a_build_that_sends_too_much_is_over_the_limit(build, source, words):
    built = build(source)
    assert [finding.verdict for finding in built.findings] == [Verdict.LIMIT_EXCEEDED]
    assert words in built.findings[0].message


def test_kept_builds_take_so_many_bytes_and_no_more(settings, confinement, tmp_path, tmp_path_factory):
    cache = tmp_path_factory.mktemp("builds")
    builder = Builder(settings, cache=cache, cache_bytes=2_500_000)
    for number in range(4):
        source = FORGED + f"send(b'%032x/m.so' % {number}, bytes(1_000_000))\n" + END
        bundle = SourceBundle(files=(SourceFile(path="solution.py", text=source),))
        request = EvaluationRequest(
            evaluation_id="e1", problem="allgather", revision="r", source=bundle, backend=Backend.CUDA,
            profile=PROFILE, mode=Mode.CHECK,
        )  # fmt: skip
        assert builder.build(request, workdir=tmp_path, sandbox=confinement).result.artefacts
    assert len(list(cache.iterdir())) == 2


def test_nothing_is_built_where_there_is_no_gpu_to_build_for():
    source = SourceBundle(files=(SourceFile(path="solution.py", text="# compile_cuda_extension\n"),))
    for profile, needed in (("cpux2", False), (PROFILE, True)):
        request = EvaluationRequest(
            evaluation_id="e1", problem="allreduce", revision="r", source=source, backend=Backend.CUDA,
            profile=profile, mode=Mode.CHECK,
        )  # fmt: skip
        assert is_needed(request) is needed


def test_what_builds_modules_counts_in_the_name_of_a_module(tmp_path):
    header = tmp_path / "torch" / "extension.h"
    header.parent.mkdir()
    header.write_text("#pragma once\n")
    (tmp_path / "build.py").write_text("FLAGS = ()\n")
    first = sources_digest(tmp_path)
    (tmp_path / "README.md").write_text("words\n")
    assert sources_digest(tmp_path) == first
    header.write_text("#pragma once\n#include <torch/types.h>\n")
    second = sources_digest(tmp_path)
    (tmp_path / "build.py").write_text("FLAGS = ('-lineinfo',)\n")
    assert len({first, second, sources_digest(tmp_path)}) == 3


@pytest.mark.parametrize("at", ["disassembly-", "reading-", "listing-", "listed-"])
def test_a_cancellation_ends_the_reading_of_what_was_built(settings, confinement, tmp_path, at):
    """What was read so far is not kept; the next evaluation of the source builds and reads it."""
    if disassembly.tool() is None:
        pytest.skip("no cuobjdump on this machine")
    name = at.replace("-", "_") + "cancelled"
    source = HEADER + f"CUDA = r'''{tiny_module(name)}'''\ncompile_cuda_extension({name!r}, CUDA)\n"
    request = build_request(("solution.py", source), mode=Mode.PROFILE)
    is_built = at in ("listing-", "listed-")
    builder = Builder(settings, cache=tmp_path / "builds")
    if is_built:
        checked = build_request(("solution.py", source), mode=Mode.CHECK)
        assert builder.build(checked, workdir=tmp_path, sandbox=confinement).result.artefacts

    def is_reading() -> bool:
        return any(path.name.startswith(at) for path in tmp_path.iterdir())

    with pytest.raises(Cancelled):
        builder.build(request, workdir=tmp_path, sandbox=confinement, deadlines=Deadlines(math.inf, is_reading))
    assert {path.name for path in tmp_path.iterdir()} <= {"builds"}
    whole = builder.build(request, workdir=tmp_path, sandbox=confinement)
    assert whole.result.cached is is_built
    assert [kernel.symbol for kernel in whole.code.kernels] == ["_Z6kernelPi"]


def test_what_a_killed_builder_leaves_is_not_kept(settings, confinement, tmp_path):
    """As where the kernel ends it because the node lacks memory: it has sent a module, and no result."""
    cache = tmp_path / "builds"
    source = FORGED + "send(b'%032x/m.so' % 78, bytes(1000))\nos._exit(137)\n"
    request = build_request(("solution.py", source))
    for _ in range(2):
        built = Builder(settings, cache=cache).build(request, workdir=tmp_path, sandbox=confinement)
        assert "without a result" in built.result.log
        assert not built.result.cached
    assert not cache.exists()


@pytest.mark.parametrize(
    "listing",
    ["LD." * 1_000_000, "Fatbin ptx code:\n" + "ld." * 1_000_000, "/*0000*/ a" + " " * 1_000_000 + "b"],
    ids=["instructions without an end", "PTX without an end", "spaces"],
)
def test_a_listing_of_one_endless_line_is_read_in_a_moment(confinement, tmp_path, listing):
    """Once this took quadratic or cubic time: hours, in which no slot of the node could send its heartbeat."""
    artefacts = {f"{1:032x}/m.so": b"\0nvshmem_init" + b"x" * 1_000_000 + b"\0"}
    (found,) = disassembly.detections(artefacts, iter([("m.so", listing)]), job=build_job(tmp_path, confinement))
    assert len(found.detail) < 1000
    assert not code_listing.parse(f".text.k:\n{listing}").usage
    assert not list(tmp_path.iterdir())


def test_a_listing_of_machine_code_that_takes_too_long_to_read_is_over_a_limit(confinement, tmp_path):
    """It is read in a process that can be ended: meanwhile the slots of the node send their heartbeats."""
    listings = [("m.so", ".text.k:\n" + "        /*0010*/  FADD R1, R1, R2 ;\n" * 500_000)]
    over = build_job(tmp_path, confinement, deadlines=Deadlines(time.monotonic() - 3600))
    with pytest.raises(LimitExceeded, match="longer than"):
        code_listing.find(listings, unread=0, job=over, origins={})
    in_time = build_job(tmp_path, confinement)
    code = code_listing.find(listings, unread=1, job=in_time, origins={})
    assert [(kernel.symbol, kernel.count) for kernel in code.kernels] == [("k", 500_000)]
    assert code.note == "1 of the build's modules could not be read"
    assert not list(tmp_path.iterdir())


def test_modules_that_take_too_long_to_read_are_over_a_limit(confinement, tmp_path):
    artefacts = {f"{number:032x}/m.so": bytes(50_000_000) for number in range(5)}
    over = build_job(tmp_path, confinement, deadlines=Deadlines(time.monotonic() - 3600))
    with pytest.raises(LimitExceeded, match="longer than"):
        disassembly.detections(artefacts, iter([]), job=over)
    assert not list(tmp_path.iterdir())


# ---- builds side by side --------------------------------------------------------------------------------------------

FORKS = (
    "import os, time\n"
    "while True:\n    try:\n        if os.fork() == 0:\n            time.sleep(3600)\n"
    "    except OSError:\n        time.sleep(0.1)\n"
)


def tasks_of(user: int) -> int:
    """How many threads of all processes a user has."""
    total = 0
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            facts = dict(line.split(":", 1) for line in status.read_text().splitlines())
        except OSError:
            continue
        total += int(facts["Threads"]) if facts["Uid"].split()[0] == str(user) else 0
    return total


def test_a_build_that_forks_without_end_leaves_processes_to_the_builds_beside_it(tmp_path):
    """Builders of a node share a user; the kernel's limit for a user would let one build stop all others."""
    settings = JudgeSettings(profile=PROFILE, work_dir=tmp_path)
    user = SlotUser.take(settings.users)
    if user is None:
        pytest.skip("only root gives builds a user of their own")
    confinement = doctor.resolve_in(tmp_path, profile=profiles.get(PROFILE), settings=settings, user=user)
    if confinement.hierarchy is None or "pids" not in confinement.hierarchy.folders:
        pytest.skip("no control group counts processes on this machine")
    builder = Builder(settings, limits=BuildLimits(processes=150))
    is_over = threading.Event()

    def build(name: str, extra: str = "") -> Built:
        source = HEADER + f"CUDA = r'''{tiny_module(name)}'''\ncompile_cuda_extension({name!r}, CUDA)\n{extra}"
        bundle = SourceBundle(files=(SourceFile(path="solution.py", text=source),))
        request = EvaluationRequest(
            evaluation_id=name, problem="allgather", revision="r", source=bundle, backend=Backend.CUDA,
            profile=PROFILE, mode=Mode.CHECK,
        )  # fmt: skip
        (tmp_path / name).mkdir()
        deadlines = Deadlines(math.inf, is_over.is_set)
        return builder.build(request, workdir=tmp_path / name, sandbox=confinement, deadlines=deadlines)

    with ThreadPoolExecutor(1) as thread, contextlib.closing(user):
        forking = thread.submit(build, "forking", FORKS)
        try:
            wait_until(lambda: tasks_of(user.number) >= 140, what="the build has forked", seconds=120)
            beside = build("beside")
        finally:
            is_over.set()
        assert isinstance(forking.exception(), Cancelled)
    assert [Path(name).name for name in beside.result.artefacts] == ["beside.so"], beside.result.log


def test_a_sandbox_that_does_not_start_is_the_nodes_trouble_and_nothing_is_kept(settings, confinement, tmp_path):
    """It may have no process: it ends before it has read anything of the submission."""
    source = HEADER + f"CUDA = r'''{tiny_module('never')}'''\ncompile_cuda_extension('never', CUDA)\n"
    bundle = SourceBundle(files=(SourceFile(path="solution.py", text=source),))
    request = EvaluationRequest(
        evaluation_id="e1", problem="allgather", revision="r", source=bundle, backend=Backend.CUDA, profile=PROFILE,
        mode=Mode.CHECK,
    )  # fmt: skip
    cache = tmp_path / "builds"
    builder = Builder(settings, cache=cache, limits=BuildLimits(files=4))
    with pytest.raises(NodeFailure, match="before it began"):
        builder.build(request, workdir=tmp_path, sandbox=confinement)
    assert not cache.exists()
    assert Builder(settings, cache=cache).build(request, workdir=tmp_path, sandbox=confinement).result.artefacts


def test_a_line_number_that_cannot_be_written_again_is_no_report_of_a_build(build):
    """Python reads 4,300 digits and refuses to write one more."""
    digits = "9" * 4300
    source = FORGED + (
        "one = dict(name='x', succeeded=False, seconds=1.0, log='x.cu(8): error: no', is_certain=True,\n"
        "           file='solution.py', line='LINE')\n"
        "text = json.dumps(dict(extensions=[one], notes=[]))\n"
        f"send(b'result.json', text.replace('\"LINE\"', {digits!r}).encode())\nos._exit(0)\n"
    )
    assert "without a result" in build(source).result.log
