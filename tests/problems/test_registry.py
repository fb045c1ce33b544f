"""Finding problems, their revisions, and the promise that metadata needs no torch."""

import ast
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from problems import registry
from problems.spec.judged_data import judged_data
from problems.spec.schema import Size, SizeName, fixed
from problems.spec.taxonomy import BLOCK_GROUPS, Block, Domain
from tests import tiers


@pytest.fixture
def copied_catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the problem set that the registry reads in place of the real one."""
    root = tmp_path / "problems"
    shutil.copytree(registry.CATALOG.parent, root, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(registry, "CATALOG", root / "catalog")
    _forget()
    yield root / "catalog"
    monkeypatch.undo()
    _forget()


def _forget() -> None:
    for cached in (
        registry._folders,  # noqa: SLF001  a test that swaps the catalogue must empty every cache of it
        registry.problems,
        registry.revision,
    ):
        cached.cache_clear()


def test_problems_are_sorted_and_their_names_unique():
    numbers = [problem.number for problem in registry.problems()]
    slugs = [problem.slug for problem in registry.problems()]
    assert numbers == sorted(set(numbers))
    assert len(slugs) == len(set(slugs))


def test_every_folder_of_the_catalogue_is_a_problem():
    folders = {path for path in registry.CATALOG.iterdir() if path.is_dir() and path.name != "__pycache__"}
    found = {registry.folder(problem.slug) for problem in registry.problems()}
    assert folders - found == set(), "a problem's folder is called pNNN_slug, with three digits, and has a spec.py"


def test_unknown_slug_is_refused_with_a_suggestion():
    with pytest.raises(registry.UnknownProblem, match="no problem called 'alreduce'; did you mean allreduce"):
        registry.get("alreduce")


def test_unlike_slug_is_refused_without_a_suggestion():
    with pytest.raises(registry.UnknownProblem, match=r"no problem called 'zzzzzz'$"):
        registry.get("zzzzzz")


def test_folder_name_must_agree_with_its_spec(copied_catalog: Path):
    (copied_catalog / "p001_allreduce").rename(copied_catalog / "p099_allreduce")
    # The renamed folder is no module of the running package, so its spec is made importable under that name.
    sys.modules["problems.catalog.p099_allreduce.spec"] = sys.modules["problems.catalog.p001_allreduce.spec"]
    try:
        with pytest.raises(ValueError, match=r"p099_allreduce/spec.py describes number 1, slug 'allreduce'"):
            registry.problems()
    finally:
        del sys.modules["problems.catalog.p099_allreduce.spec"]


@pytest.mark.parametrize("name", ["inputs.py", "reference.py", "oracle.py"])
def test_revision_changes_with_every_file_that_decides(copied_catalog: Path, name: str):
    before, other = registry.revision("allreduce"), registry.revision("gemm_allreduce")
    with (copied_catalog / "p001_allreduce" / name).open("a") as file:
        file.write("\n")
    _forget()
    assert registry.revision("allreduce") != before
    assert registry.revision("gemm_allreduce") == other


_LOADED = """
import importlib, json, sys
from pathlib import Path
from problems import registry

found = {}
for problem in registry.problems():
    for name in [name for name in sys.modules if name.startswith("problems.")]:
        del sys.modules[name]
    for name in ("inputs", "reference", "oracle"):
        importlib.import_module(f"{registry.package(problem.slug)}.{name}")
    importlib.import_module("problems.outputs.checking")
    modules = [Path(module.__file__) for name, module in sys.modules.items() if name.startswith("problems.")]
    found[problem.slug] = [path.relative_to(registry.CATALOG.parent).as_posix() for path in modules]
print(json.dumps(found))
"""
"""Prints which files Python really loads for inputs, reference, oracle and comparison of each problem."""
ROOMS = ("inputs", "outputs", "families")
"""Where modules lie that problems share."""


def test_byte_changed_in_a_shared_module_changes_the_revisions_that_use_it_and_no_other(
    copied_catalog: Path, monkeypatch: pytest.MonkeyPatch
):
    printed = subprocess.run([sys.executable, "-c", _LOADED], capture_output=True, text=True, check=True).stdout
    loaded = {slug: set(paths) for slug, paths in json.loads(printed).items()}
    data = {problem.slug: judged_data(problem) for problem in registry.problems()}  # no module changes it: said once
    monkeypatch.setattr(registry, "judged_data", lambda problem: data[problem.slug])
    before = {slug: registry.revision(slug) for slug in loaded}
    root = copied_catalog.parent
    shared = {path.relative_to(root).as_posix(): path for room in ROOMS for path in (root / room).glob("[!_]*.py")}
    assert len(shared) > 20
    for slug, paths in loaded.items():
        counted = {path.relative_to(root).as_posix() for path in registry.judged_files(slug)}
        own_spec = (registry.folder(slug) / "spec.py").relative_to(root).as_posix()
        rest = {path for path in paths - counted if not path.startswith("spec/") and not path.endswith("__init__.py")}
        assert rest <= {own_spec, "registry.py"}, slug
        assert counted & shared.keys() == paths & shared.keys(), slug
    used = {name: {slug for slug, paths in loaded.items() if name in paths} for name in shared}
    name = max((name for name in shared if len(used[name]) < len(loaded)), key=lambda name: len(used[name]))
    with shared[name].open("a") as file:
        file.write("\n")
    registry.revision.cache_clear()
    assert {slug for slug in loaded if registry.revision(slug) != before[slug]} == used[name] != set()


def test_tiers_of_tests_follow_a_problem_to_every_file_of_its_revision():
    matrix = [tiers.ROOT / "tests" / path for path in tiers.MATRIX]
    for problem in registry.problems():
        followed = tiers._imports([*matrix, *registry.folder(problem.slug).glob("*.py")])  # noqa: SLF001
        assert set(registry.judged_files(problem.slug)) <= followed


def test_rooms_hold_no_code_of_their_own():
    """What a package's __init__.py did would count in no revision."""
    for path in registry.CATALOG.parent.rglob("__init__.py"):
        (only,) = ast.parse(path.read_text(encoding="utf-8")).body
        assert isinstance(only, ast.Expr), path


def test_how_a_spec_is_written_statement_and_variants_leave_the_revision(copied_catalog: Path):
    before = registry.revision("allreduce")
    for name in ("spec.py", "statement.md", "variants.py"):
        with (copied_catalog / "p001_allreduce" / name).open("a") as file:
            file.write("\n")
    _forget()
    assert registry.revision("allreduce") == before


@pytest.mark.parametrize(
    ("folder", "counts"), [("p062_torchharmonics_spherical_convolution", True), ("p004_reduce", False)]
)
def test_spec_counts_by_its_text_where_inputs_or_oracle_take_constants_from_it(
    copied_catalog: Path, folder: str, *, counts: bool
):
    slug = folder.partition("_")[2]
    before = registry.revision(slug)
    with (copied_catalog / folder / "spec.py").open("a") as file:
        file.write("\n")
    _forget()
    assert (registry.revision(slug) != before) is counts


ALLREDUCE = registry.get("allreduce")
OUTPUT = ALLREDUCE.outputs[0]


@pytest.mark.parametrize(
    "change",
    [
        {"slug": "other"},
        {"arguments": (replace(ALLREDUCE.arguments[0], dtype="float32"),)},
        {"outputs": (replace(OUTPUT, tolerance=replace(OUTPUT.tolerance, rms=0.009)),)},
        {"outputs": (replace(OUTPUT, layout="contiguous"),)},
        {"nothing_at": (1,)},
        {"refuses_world_size": lambda world_size: None if world_size != 7 else "seven is too many"},
        {"sizes": {**ALLREDUCE.sizes, SizeName.LARGE: replace(ALLREDUCE.sizes[SizeName.LARGE], least_world_size=4)}},
        {"sizes": {**ALLREDUCE.sizes, SizeName.TINY: Size(dims=fixed(M=8, N=8), system="smaller")}},
        {"cost": lambda dims, ranks, element_bytes: replace(ALLREDUCE.cost(dims, ranks, element_bytes), flops={})},
    ],
    ids=lambda change: next(iter(change)),
)
def test_spec_that_judges_otherwise_has_other_data(change: dict):
    assert judged_data(replace(ALLREDUCE, **change)) != judged_data(ALLREDUCE)


@pytest.mark.parametrize(
    "change",
    [
        {"title": "Sum over ranks", "summary": "Adds.", "notes": ("a note",), "domain": Domain.SCIENCE},
        {"hops": (), "communication": (), "mutants_not_applicable": {"zeros": "zeros is what it is about"}},
        {"arguments": (replace(ALLREDUCE.arguments[0], values="said in other words"),)},
        {"outputs": (replace(OUTPUT, tolerance=replace(OUTPUT.tolerance, calibration="measured again")),)},
        {"refuses_world_size": lambda world_size: "too few" if world_size < 2 else None},
    ],
    ids=lambda change: next(iter(change)),
)
def test_spec_that_says_the_same_in_other_words_has_the_same_data(change: dict):
    assert judged_data(replace(ALLREDUCE, **change)) == judged_data(ALLREDUCE)


def test_metadata_of_all_problems_loads_without_torch():
    program = (
        "import sys; from problems import registry; found = registry.problems(); "
        "[registry.revision(p.slug) for p in found]; print(len(found), 'torch' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == [str(len(registry.problems())), "False"]


def test_every_block_is_in_exactly_one_group():
    grouped = [block for blocks in BLOCK_GROUPS.values() for block in blocks]
    assert sorted(grouped) == sorted(Block)
    assert len(grouped) == len(set(grouped))


def test_every_vocabulary_member_has_a_label():
    assert all(block.label for block in Block)
